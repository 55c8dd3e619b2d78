package sim

import (
	"fmt"
	"time"
)

// look is how often liveness is looked at.
const look = time.Second

// superviseLiveness fails the schedule when nobody has worked for [Scenario].Bound, while the server and
// one and the same process had no fault. What works is a process that can act: one that is stopped in
// the midst of its work keeps others from it for a lease duration only.
func (w *World) superviseLiveness() {
	well := map[*Process]time.Time{} // since when each has had no fault, and nobody has worked
	tick := time.NewTicker(look)
	defer tick.Stop()
	begun := 0
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
				w.referee.fail(fmt.Sprintf("nobody has worked for %v, although nothing is wrong with %s and the server", idle, p.Name))
				w.referee.mu.Unlock()
				return
			}
		}
	}
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
