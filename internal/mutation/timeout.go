package mutation

import (
	"testing"
	"time"
)

// lastWords is how long before a test its mutated test must end, so that its report is read.
const lastWords = 20 * time.Second

// Timeout returns the flag for a test binary that t executes. The binary ends before t does and has no
// other bound in real time, because the machine may be slow.
func Timeout(t *testing.T) string {
	t.Helper()
	end, ok := t.Deadline()
	if !ok {
		return "-test.timeout=0"
	}
	return "-test.timeout=" + max(time.Until(end)-lastWords, time.Second).String()
}
