package subprocess

import (
	"testing"
	"time"
)

// limit is when a child that hangs is killed, and its test fails.
const limit = time.Minute

// InTime tries with more and more time what a machine has to do within a time, until it was quick enough.
// try reports whether it was, which says nothing about the code under test: try fails the test for that.
func InTime(t *testing.T, least time.Duration, try func(within time.Duration) (quick bool)) {
	t.Helper()
	for within := least; within < limit; within *= 4 {
		if try(within) {
			return
		}
		t.Logf("the machine took longer than %v", within)
	}
	t.Fatalf("the machine is too slow: it took longer than %v each time", limit/4)
}
