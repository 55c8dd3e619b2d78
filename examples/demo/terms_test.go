package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// acts is a daemon's log of acts at these seconds, in one term.
func acts(ts *terms, daemon string, seconds ...float64) {
	for i, at := range seconds {
		ts.note(daemon, fmt.Sprintf(`{"level":"info","ts":%f,"msg":"working","step":%d}`, at, i+1))
	}
}

func TestVerdictOnTerms(t *testing.T) {
	ts := newTerms()
	acts(ts, "a", 1, 2, 3)
	acts(ts, "b", 3.5, 4)
	ts.note("b", `{"level":"info","ts":9,"msg":"work has ended"}`)
	ts.note("b", "not JSON")
	acts(ts, "a", 5, 6)
	overlap, n, of := ts.verdict()
	assert.Empty(t, overlap)
	assert.Equal(t, 7, n)
	assert.Equal(t, 3, of)
	assert.Len(t, ts.begun, 3)

	acts(ts, "c", 5.999999)
	overlap, _, _ = ts.verdict()
	assert.Contains(t, overlap, "a worked until")
	assert.Contains(t, overlap, "c from")
}
