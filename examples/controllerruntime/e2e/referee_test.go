package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// requireExclusion requires that no two replicas worked on one parent at the same time.
func (c *cluster) requireExclusion() {
	c.t.Helper()
	ends := map[string]float64{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.processes {
		select {
		case <-p.Done():
			exit, err := p.Wait(c.t.Context())
			require.NoError(c.t, err)
			ends[name] = float64(exit.At.UnixNano()) / 1e9
		default:
			ends[name] = float64(time.Now().UnixNano()) / 1e9
		}
	}
	begun := slices.ContainsFunc(c.lines, func(l line) bool { return l.Message == "work begins" })
	assert.True(c.t, begun, "no work was done")
	assert.Empty(c.t, breaches(c.lines, ends))
}

// breaches returns where two replicas worked on one object at the same time. Work without a logged
// end goes on until the end of its replica.
func breaches(lines []line, ends map[string]float64) (found []string) {
	type piece struct {
		line
		end float64
	}
	var open, all []*piece
	for _, l := range lines {
		switch l.Message {
		case "work begins":
			p := &piece{l, ends[l.replica]}
			open, all = append(open, p), append(all, p)
		case "work has ended":
			if i := slices.IndexFunc(open,
				func(p *piece) bool { return p.replica == l.replica && p.Object == l.Object }); i >= 0 {
				open[i].end = l.Time
				open = slices.Delete(open, i, i+1)
			}
		case "was killed":
			open = slices.DeleteFunc(open, func(p *piece) bool {
				if p.replica == l.replica {
					p.end = l.Time
				}
				return p.replica == l.replica
			})
		}
	}
	for i, p := range all {
		for _, q := range all[:i] {
			if p.Object == q.Object && p.replica != q.replica && p.Time < q.end && q.Time < p.end {
				found = append(found,
					fmt.Sprintf("two at work on %s: %s from %f to %f, %s from %f to %f", p.Object, p.replica, p.Time,
						p.end, q.replica, q.Time, q.end))
			}
		}
	}
	return found
}

func TestBreachesAreDetected(t *testing.T) {
	t.Parallel()
	at := func(replica, message, object string, when float64) line {
		return line{replica: replica, Message: message, Object: object, Time: when}
	}
	ends := map[string]float64{"a": 9, "b": 9}
	assert.Empty(t, breaches([]line{
		at("a", "work begins", "x", 1), at("b", "work begins", "y", 1), at("a", "work has ended", "x", 2),
		at("b", "work begins", "x", 3),
	}, ends))
	assert.Empty(t,
		breaches([]line{at("a", "work begins", "x", 1), at("a", "was killed", "", 2), at("b", "work begins", "x", 3)},
			ends))
	assert.Len(t, breaches([]line{at("a", "work begins", "x", 1), at("b", "work begins", "x", 3)}, ends), 1,
		"the first has no end")
	assert.Len(t,
		breaches([]line{at("a", "work begins", "x", 1), at("a", "was killed", "", 4), at("b", "work begins", "x", 3)},
			ends), 1)
}
