package referee

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// acts is a daemon's log of acts at these seconds, in one term.
func acts(ts *Terms, daemon string, seconds ...float64) {
	for i, at := range seconds {
		ts.Note(daemon, fmt.Sprintf(`{"level":"info","ts":%f,"msg":"working","step":%d}`, at, i+1))
	}
}

func TestVerdictOnTerms(t *testing.T) {
	ts := NewTerms()
	acts(ts, "a", 1, 2, 3)
	acts(ts, "b", 3.5, 4)
	ts.Note("b", `{"level":"info","ts":9,"msg":"work has ended"}`)
	ts.Note("b", "not JSON")
	acts(ts, "a", 5, 6)
	overlap, n, of := ts.Verdict()
	assert.Empty(t, overlap)
	assert.Equal(t, 7, n)
	assert.Equal(t, 3, of)
	assert.Len(t, ts.Begun, 3)

	acts(ts, "c", 5.999999)
	overlap, _, _ = ts.Verdict()
	assert.Contains(t, overlap, "a worked until")
	assert.Contains(t, overlap, "c from")
}

func TestOneActAfterAStopIsExcused(t *testing.T) {
	ts := NewTerms()
	acts(ts, "a", 1, 2, 9)
	acts(ts, "b", 5, 6)
	overlap, _, _ := ts.Verdict()
	assert.NotEmpty(t, overlap)
	ts.Excuse("a", time.Unix(3, 0))
	overlap, _, _ = ts.Verdict()
	assert.Empty(t, overlap)

	acts(ts, "b", 10, 15, 16)
	acts(ts, "c", 12, 13)
	ts.Excuse("b", time.Unix(11, 0))
	overlap, _, _ = ts.Verdict()
	assert.Contains(t, overlap, "c from", "a second act is not excused")
}
