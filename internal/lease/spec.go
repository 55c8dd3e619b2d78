package lease

import (
	"bytes"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// SameSpec reports whether an API server stores two specs in the same way. It compares all fields,
// including those that this package does not know.
func SameSpec(a, b *coordinationv1.LeaseSpec) bool {
	return a.RenewTime.Equal(b.RenewTime) && bytes.Equal(encoded(a), encoded(b)) // most have another renew time
}

func encoded(s *coordinationv1.LeaseSpec) []byte {
	raw, err := s.Marshal()
	if err != nil { // impossible: it only copies fields
		panic("lease: encode a spec: " + err.Error())
	}
	return raw
}
