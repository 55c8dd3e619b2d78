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
func (c *cluster) note(replica, text string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "begin", "end":
		if c.referee != nil {
			c.referee.note(replica, words)
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line{replica, words})
}

// said returns how often a replica has said something; the empty name stands for any.
func (c *cluster) said(replica string, words ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.lines {
		if (replica == "" || l.replica == replica) && len(l.words) >= len(words) &&
			slices.Equal(l.words[:len(words)], words) {
			n++
		}
	}
	return n
}

// requireScans waits for the ends of that many scans. The first may have begun already.
func (c *cluster) requireScans(n int) {
	c.t.Helper()
	before := c.said("", "scan")
	c.eventually(func() bool { return c.said("", "scan") >= before+n }, "no scans")
}

// eventually waits for something that has no bound of its own.
func (c *cluster) eventually(condition func() bool, message string, args ...any) {
	c.t.Helper()
	if !waitFor(c.t.Context(), c.patience, condition) {
		require.Fail(c.t, fmt.Sprintf(message, args...), c.logs())
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
func (c *cluster) requireSaid(replica string, n int, words ...string) {
	c.t.Helper()
	c.eventually(func() bool { return c.said(replica, words...) > n }, "%s: never said %q %d times", replica, words,
		n+1)
}

// requireHeld waits until replicas hold their shard leases.
func (c *cluster) requireHeld(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.requireSaid(name, 0, "held")
	}
}

// requireSettled waits until the sharder has distributed everything among these shards, and knows
// it.
func (c *cluster) requireSettled(members ...string) {
	c.t.Helper()
	slices.Sort(members)
	want := strings.Join(members, ",")
	c.eventually(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, l := range slices.Backward(c.lines) {
			switch l.words[0] {
			case "settled":
				return len(l.words) > 1 && l.words[1] == want
			case "members", "sharder":
				return false
			}
		}
		return false
	}, "the ring is not settled with %s", want)
	c.requirePlaced(members...)
}

// requireLog waits until a replica has said something to its operator.
func (c *cluster) requireLog(p *e2e.Process, text string) {
	c.t.Helper()
	c.eventually(func() bool {
		var ended bool
		select {
		case <-p.Done():
			ended = true
		default:
		}
		said := strings.Contains(c.log(p), text)
		require.False(c.t, ended && !said, "ended, and never said %q: %s", text, c.log(p))
		return said
	}, "never said %q", text)
}

// log returns what a replica has said to its operator.
func (c *cluster) log(p *e2e.Process) string {
	c.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(c.t, err)
	var lines []string
	for l := range strings.Lines(string(text)) {
		if !strings.HasPrefix(l, "begin ") && !strings.HasPrefix(l, "end ") {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines, "")
}

// logs returns the ends of what all replicas have said, for a failure.
func (c *cluster) logs() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all strings.Builder
	for name, p := range c.processes {
		text := c.log(p)
		fmt.Fprintf(&all, "--- %s:\n%s\n", name, text[max(0, len(text)-3000):])
	}
	return all.String()
}
