package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVersionsThatReachAFloor(t *testing.T) {
	for _, test := range []struct {
		version, floor string
		want           bool
	}{
		{"10", "9", true}, // as numbers, not as text
		{"9", "9", true},
		{"9", "10", false},
		{"", "", true},
		{"9", "", true},
		{"", "9", false}, // the version is unknown
		{"x", "9", false},
		{"9", "x", false},
		{"0", "9", false},
	} {
		assert.Equal(t, test.want, Reaches(test.version, test.floor), test)
	}
}
