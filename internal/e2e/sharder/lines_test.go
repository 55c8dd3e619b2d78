package sharder_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// line is what a replica has said.
type line struct {
	replica string
	words   []string
}

// note takes in what a replica says.
func (f *fleet) note(replica, text string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "begin", "end":
		if f.referee != nil {
			f.referee.note(replica, words)
		}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line{replica, words})
}

// said returns how often a replica has said something; the empty name stands for any.
func (f *fleet) said(replica string, words ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, l := range f.lines {
		if (replica == "" || l.replica == replica) && len(l.words) >= len(words) &&
			slices.Equal(l.words[:len(words)], words) {
			n++
		}
	}
	return n
}

// requireScans waits for the ends of that many scans. The first may have begun already.
func (f *fleet) requireScans(n int) {
	f.t.Helper()
	before := f.said("", "scan")
	f.eventually(func() bool { return f.said("", "scan") >= before+n }, "no scans")
}

// eventually waits for something that has no bound of its own.
func (f *fleet) eventually(condition func() bool, message string, args ...any) {
	f.t.Helper()
	if !waitFor(f.t.Context(), f.patience, condition) {
		require.Fail(f.t, fmt.Sprintf(message, args...), f.logs())
	}
}

// waitFor reports whether something came about in time. It looks again only after it has looked.
func waitFor(ctx context.Context, patience time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(patience)
	for !condition() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(poll):
		}
		if time.Now().After(deadline) {
			return condition()
		}
	}
	return true
}

// requireSaid waits until a replica has said something once more than n times.
func (f *fleet) requireSaid(replica string, n int, words ...string) {
	f.t.Helper()
	f.eventually(func() bool { return f.said(replica, words...) > n }, "%s: never said %q %d times", replica, words,
		n+1)
}

// requireHeld waits until replicas hold their shard leases.
func (f *fleet) requireHeld(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.requireSaid(name, 0, "held")
	}
}

// requireSettled waits until the sharder has distributed everything among these shards, and knows
// it.
func (f *fleet) requireSettled(members ...string) {
	f.t.Helper()
	slices.Sort(members)
	want := strings.Join(members, ",")
	f.eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range slices.Backward(f.lines) {
			switch l.words[0] {
			case "settled":
				return len(l.words) > 1 && l.words[1] == want
			case "members", "sharder":
				return false
			}
		}
		return false
	}, "the ring is not settled with %s", want)
	f.requirePlaced(members...)
}

// requireLog waits until a replica has said something to its operator.
func (f *fleet) requireLog(p *e2e.Process, text string) {
	f.t.Helper()
	f.eventually(func() bool {
		var ended bool
		select {
		case <-p.Done():
			ended = true
		default:
		}
		said := strings.Contains(f.log(p), text)
		require.False(f.t, ended && !said, "ended, and never said %q: %s", text, f.log(p))
		return said
	}, "never said %q", text)
}

// log returns what a replica has said to its operator.
func (f *fleet) log(p *e2e.Process) string {
	f.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(f.t, err)
	var lines []string
	for l := range strings.Lines(string(text)) {
		if !strings.HasPrefix(l, "begin ") && !strings.HasPrefix(l, "end ") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "")
}

// logs returns the ends of what all replicas have said, for a failure.
func (f *fleet) logs() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all strings.Builder
	for name, p := range f.processes {
		text := f.log(p)
		fmt.Fprintf(&all, "--- %s:\n%s\n", name, text[max(0, len(text)-3000):])
	}
	return all.String()
}
