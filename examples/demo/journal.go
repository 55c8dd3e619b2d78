package main

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// journal is what the daemons say they did, by their own clocks, which are one: all run on this machine.
type journal struct {
	begun chan term // each term's first act

	mu    sync.Mutex
	terms []*term          // guarded by mu: in the order in which they began
	last  map[string]*term // guarded by mu: by daemon
}

// term is one stretch of work of one daemon.
type term struct {
	daemon     string
	start, end time.Time // of its acts
	acts       int
}

func newJournal() *journal {
	return &journal{begun: make(chan term, 100), last: map[string]*term{}}
}

// note takes in a line of a daemon's log.
func (j *journal) note(daemon, line string) {
	var entry struct {
		Message string  `json:"msg"`
		Seconds float64 `json:"ts"`
		Step    int     `json:"step"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "working" {
		return
	}
	at := time.UnixMicro(int64(entry.Seconds * 1e6))
	j.mu.Lock()
	defer j.mu.Unlock()
	if entry.Step == 1 {
		t := &term{daemon: daemon, start: at}
		j.terms = append(j.terms, t)
		j.last[daemon] = t
		j.begun <- *t
	}
	if t := j.last[daemon]; t != nil {
		t.end = at
		t.acts++
	}
}

// verdict says whether two daemons ever worked at the same time, and out of how many acts in how many terms.
func (j *journal) verdict() (overlap string, acts, terms int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, a := range j.terms {
		acts += a.acts
		for _, b := range j.terms[i+1:] {
			if !a.start.After(b.end) && !b.start.After(a.end) {
				overlap = fmt.Sprintf("%s worked until %s, %s from %s on", a.daemon, a.end.Format(clock), b.daemon, b.start.Format(clock))
			}
		}
	}
	return overlap, acts, len(j.terms)
}

const clock = "15:04:05.000000"
