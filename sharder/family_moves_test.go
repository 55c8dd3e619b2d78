package sharder

import (
	"fmt"
	"testing"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/stretchr/testify/assert"
)

// A scan ends the doubts about moves that had ended halfway before it began. It does not end those
// about moves that end halfway during the scan.
func TestScanEndsTheDoubtsFromBeforeIt(t *testing.T) {
	before, during, other := protocol.Ref{Name: "before"}, protocol.Ref{Name: "during"}, protocol.Ref{Name: "other"}
	m := newFamilies()
	assert.True(t, m.inDoubt(other), "another sharder's moves may have ended so")
	m.doubt(before)
	ended := m.doubts()
	m.doubt(during)
	m.found(ended, nil)
	assert.False(t, m.inDoubt(before))
	assert.True(t, m.inDoubt(during))
	assert.False(t, m.inDoubt(other))

	m.found(m.doubts(), []protocol.Root{{Ref: other}})
	assert.False(t, m.inDoubt(during))
	assert.True(t, m.inDoubt(other), "the scan has not found it with its owner")

	ended = m.doubts()
	for i := range maxHalfway + 1 {
		m.doubt(protocol.Ref{Name: fmt.Sprint(i)})
	}
	m.found(ended, nil)
	assert.True(t, m.inDoubt(before), "too many have ended so since")
	m.found(m.doubts(), nil)
	assert.False(t, m.inDoubt(before))
}
