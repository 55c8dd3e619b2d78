package protocol

import "k8s.io/apimachinery/pkg/util/resourceversion"

// CompareVersions compares two resource versions of one resource. known is false if either is none: client-go's fakes do not set any.
func CompareVersions(a, b string) (order int, known bool) {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return order, err == nil
}

// Later returns the greater of two versions; what is none counts as less than any.
func Later(a, b string) string {
	if _, known := CompareVersions(b, b); known && Reaches(b, a) {
		return b
	}
	return a
}

// Reaches reports whether a version is at least floor. Where that cannot be said, it does not; an empty floor is none.
func Reaches(version, floor string) bool {
	if floor == "" {
		return true
	}
	order, known := CompareVersions(version, floor)
	return known && order >= 0
}
