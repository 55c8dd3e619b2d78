package lease

import (
	"crypto/rand"
	"encoding/hex"
)

// NewIdentity returns the identity of one process of a host or a Pod, of all that may have its name: the name, and 16
// random hexadecimal digits.
func NewIdentity(name string) string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return name + "_" + hex.EncodeToString(random)
}
