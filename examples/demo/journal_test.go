package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// acts is a daemon's log of acts at these seconds, in one term.
func acts(j *journal, daemon string, seconds ...float64) {
	for i, at := range seconds {
		j.note(daemon, fmt.Sprintf(`{"level":"info","ts":%f,"msg":"working","step":%d}`, at, i+1))
	}
}

func TestVerdict(t *testing.T) {
	j := newJournal()
	acts(j, "a", 1, 2, 3)
	acts(j, "b", 3.5, 4)
	j.note("b", `{"level":"info","ts":9,"msg":"work has ended"}`)
	j.note("b", "not JSON")
	acts(j, "a", 5, 6)
	overlap, n, terms := j.verdict()
	assert.Empty(t, overlap)
	assert.Equal(t, 7, n)
	assert.Equal(t, 3, terms)
	assert.Len(t, j.begun, 3)

	acts(j, "c", 5.999999)
	overlap, _, _ = j.verdict()
	assert.Contains(t, overlap, "a worked until")
	assert.Contains(t, overlap, "c from")
}
