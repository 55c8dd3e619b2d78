package sim

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// look is the interval between two checks of liveness.
const look = time.Second

// superviseLiveness fails the schedule if no process has worked for [Scenario].Bound, while the
// server and one and the same process had no fault. Only a process that can act counts as working,
// because one that is stopped amid its work keeps others from it for a lease duration only. A write
// of a faulty process restarts the time, because the process may have taken what all wait for and
// died before it began to work.
func (w *World) superviseLiveness() {
	well := map[*Process]time.Time{} // since when each has had no fault while no process worked
	tick := time.NewTicker(look)
	defer tick.Stop()
	begun, served := 0, 0
	for {
		select {
		case <-w.over:
			return
		case <-tick.C:
		}
		candidates := w.wellProcesses()
		if n := w.referee.beginnings(); n != begun { // perhaps for less than a look
			begun, candidates = n, nil
		}
		requests := w.Server.TraceFrom(served)
		if served += len(requests); w.writtenBySick(requests, candidates) {
			candidates = nil
		}
		for p := range well {
			if !candidates[p] {
				delete(well, p)
			}
		}
		for p := range candidates {
			if since, known := well[p]; !known {
				well[p] = time.Now()
			} else if idle := time.Since(since); idle > w.scenario.Bound {
				w.referee.mu.Lock()
				w.referee.fail(fmt.Sprintf("no process has worked for %v, although %s and the server have no fault",
					idle, p.Name))
				w.referee.mu.Unlock()
				return
			}
		}
	}
}

// writtenBySick reports whether a process that is not well has written anything.
func (w *World) writtenBySick(requests []apisim.Served, well map[*Process]bool) bool {
	wellNames := map[string]bool{}
	for p := range well {
		wellNames[p.Name] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(requests, func(r apisim.Served) bool {
		return w.started[r.Client] && !wellNames[r.Client] && r.Method != http.MethodGet &&
			r.Code < http.StatusMultipleChoices
	})
}

// wellProcesses are those that could work, if none does.
func (w *World) wellProcesses() map[*Process]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	sick := w.disturbed
	w.disturbed = map[int]bool{}
	if w.Server.Restarted() {
		return nil
	}
	for f := range w.conditions {
		if f.ofServer() {
			return nil
		}
		sick[f.Replica] = true
	}
	processes := map[*Process]bool{}
	for replica, p := range w.current {
		if p == nil || !p.acting() {
			continue
		}
		if w.referee.works(p) {
			return nil
		}
		if !sick[replica] && !p.stopping() && (w.scenario.Candidate == nil || w.scenario.Candidate(p)) {
			processes[p] = true
		}
	}
	return processes
}

// disturb notes that a fault begins. The caller holds mu.
func (w *World) disturb(f *Fault) {
	switch {
	case f.Kind == Annotations:
	case f.ofServer():
		for replica := range w.current {
			w.disturbed[replica] = true
		}
	default:
		w.disturbed[f.Replica] = true
	}
}

// annotate writes metadata until the fault is over.
func (w *World) annotate(f *Fault) {
	end, tick := time.After(f.For), time.NewTicker(f.Amount)
	defer tick.Stop()
	for {
		select {
		case <-w.over:
			return
		case <-end:
			return
		case <-tick.C:
			w.scenario.Annotate(w)
		}
	}
}
