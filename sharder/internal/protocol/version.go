package protocol

import "k8s.io/apimachinery/pkg/util/resourceversion"

// CompareVersions compares two resource versions of one resource. known is false if either is not a
// version, as with client-go's fakes, which set none.
func CompareVersions(a, b string) (order int, known bool) {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return order, err == nil
}

// Later returns the greater of two versions. An invalid one is less than any.
func Later(a, b string) string {
	if _, known := CompareVersions(b, b); known && Reaches(b, a) {
		return b
	}
	return a
}

// Reaches reports whether a version is at least floor. It is false if they cannot be compared. An
// empty floor is always reached.
func Reaches(version, floor string) bool {
	if floor == "" {
		return true
	}
	order, known := CompareVersions(version, floor)
	return known && order >= 0
}
