package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// terms is the work of the daemons by their own logs. All run on this machine, so their clocks are
// one.
type terms struct {
	begun chan term // each term's first act

	mu   sync.Mutex
	all  []*term          // guarded by mu: in the order in which they began
	last map[string]*term // guarded by mu: by daemon
}

// term is one stretch of work of one daemon.
type term struct {
	daemon     string
	start, end time.Time // of its acts
	acts       int
}

func newTerms() *terms {
	return &terms{begun: make(chan term, 100), last: map[string]*term{}}
}

// note processes a line of a daemon's log.
func (t *terms) note(daemon, line string) {
	var entry struct {
		Message string  `json:"msg"`
		Seconds float64 `json:"ts"`
		Step    int     `json:"step"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "working" {
		return
	}
	at := time.UnixMicro(int64(entry.Seconds * 1e6))
	t.mu.Lock()
	defer t.mu.Unlock()
	if entry.Step == 1 {
		first := &term{daemon: daemon, start: at}
		t.all = append(t.all, first)
		t.last[daemon] = first
		t.begun <- *first
	}
	if last := t.last[daemon]; last != nil {
		last.end = at
		last.acts++
	}
}

// verdict says whether two daemons ever worked at the same time, and out of how many acts in how
// many terms.
func (t *terms) verdict() (overlap string, acts, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, a := range t.all {
		acts += a.acts
		for _, b := range t.all[i+1:] {
			if !a.start.After(b.end) && !b.start.After(a.end) {
				overlap = fmt.Sprintf("%s worked until %s, %s from %s on", a.daemon, a.end.Format(clock), b.daemon,
					b.start.Format(clock))
			}
		}
	}
	return overlap, acts, len(t.all)
}

const clock = "15:04:05.000000"
