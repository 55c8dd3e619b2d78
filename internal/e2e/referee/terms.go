package referee

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Terms records the work of daemons. One works at a time.
type Terms struct {
	// Begun has each term at its first act.
	Begun chan Term

	mu   sync.Mutex
	all  []*Term          // guarded by mu: in the order in which they began
	last map[string]*Term // guarded by mu: by daemon
}

// Term is one stretch of work of one daemon.
type Term struct {
	Daemon     string
	Start, End time.Time // of its acts
	acts       int
	before     time.Time // the last act but one
}

// NewTerms returns an empty record.
func NewTerms() *Terms {
	return &Terms{Begun: make(chan Term, 100), last: map[string]*Term{}}
}

// Note processes a line of the log of examples/leaderelection.
func (t *Terms) Note(daemon, line string) {
	var entry struct {
		Message string  `json:"msg"`
		Seconds float64 `json:"ts"`
		Step    int     `json:"step"`
	}
	if json.Unmarshal([]byte(line), &entry) == nil && entry.Message == "working" {
		t.Act(daemon, entry.Step == 1, inSeconds(entry.Seconds))
	}
}

// Act records an act of a daemon, which may be the first of a term.
func (t *Terms) Act(daemon string, first bool, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first {
		begun := &Term{Daemon: daemon, Start: at, End: at}
		t.all = append(t.all, begun)
		t.last[daemon] = begun
		t.Begun <- *begun
	}
	if last := t.last[daemon]; last != nil {
		last.before, last.End = last.End, at
		last.acts++
	}
}

// Excuse takes away the one act that a daemon did after a time when it was stopped, if there is one. It
// can have been stopped after it had asked whether it leads, and before the act.
func (t *Terms) Excuse(daemon string, stopped time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last := t.last[daemon]; last != nil && last.End.After(stopped) {
		last.End = last.before
	}
}

// Verdict says whether two daemons ever worked at the same time, and out of how many acts in how
// many terms.
func (t *Terms) Verdict() (overlap string, acts, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, a := range t.all {
		acts += a.acts
		for _, b := range t.all[i+1:] {
			if !a.Start.After(b.End) && !b.Start.After(a.End) {
				overlap = fmt.Sprintf("%s worked until %s, %s from %s on", a.Daemon, a.End.Format(clock), b.Daemon,
					b.Start.Format(clock))
			}
		}
	}
	return overlap, acts, len(t.all)
}

const clock = "15:04:05.000000"

// inSeconds is the time of a line of zap's log.
func inSeconds(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }
