package shard

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// workItem is one piece of work on a root, from its admission until none of its requests can still
// be carried out.
type workItem struct {
	at     protocol.Address
	child  protocol.Address // that it is on; zero if it is on the root itself
	term   *shardlease.Term
	scope  interface{ Open() bool } // a shardlease.Scope, which reads a clock: not under the lock
	cancel context.CancelCauseFunc
}

// workState is what a process remembers of a root. Most roots have no workState.
type workState struct {
	at         protocol.Address
	drainState protocol.DrainState
	// since is when the root was closed, and quietSince when the last work on it ended after that.
	since, quietSince time.Time
	// floor is the version, if any, that a copy must have reached before work may begin, because
	// the root was this shard's before the acknowledgement as well.
	floor string
	// atWork is the work in flight.
	atWork map[*workItem]struct{}
	// ended is work that has returned, but has requests that may still be carried out.
	ended []*workItem
	// busy means that a goroutine advances the root's drain, and again that it must look once more.
	busy, again bool
}

// workTracker tracks the roots that a process works on, lets go of, or has let go of. All
// controllers of the process share it. Under its lock, no work is admitted between the look at a
// root and its closing.
type workTracker struct {
	mu     sync.Mutex
	roots  map[protocol.Address]*workState
	works  int              // in flight
	closed *shardlease.Term // the term in which no more work may begin
	idle   chan struct{}    // closed when no work is in flight; nil unless await is waiting
	late   []*workItem      // of all workState.ended, in the order in which they ended
}

// admit lets p begin, or returns why it may not. It calls look under the lock, because otherwise
// the root could be acknowledged, and its floor dropped, between the look and the admission.
func (r *workTracker) admit(p *workItem, look func() cacheState) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := admission{closed: r.closed == p.term}
	if known := r.roots[p.at]; known != nil {
		a.drainState, a.floor = known.drainState, known.floor
		for other := range known.atWork {
			a.outlived = a.outlived || other.term != p.term
		}
	}
	a.caches = look()
	if err := a.refusal(); err != nil {
		return fmt.Errorf("%w (%s)", err, p.at)
	}
	e := r.stateOf(p.at)
	if e.atWork == nil {
		e.atWork = map[*workItem]struct{}{}
	}
	e.atWork[p] = struct{}{}
	r.works++
	return nil
}

// leave records that p has returned, and reports whether the drain waits for that. open means that
// a request of p may still be carried out.
func (r *workTracker) leave(p *workItem, open bool) (awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[p.at]
	delete(e.atWork, p)
	r.works--
	if r.works == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
	if open {
		e.ended = append(e.ended, p)
		r.late = append(r.late, p)
	}
	e.quietSince = time.Now()
	r.dropIfEmpty(e)
	return e.drainState == protocol.Closing && len(e.atWork) == 0
}

// forgetEnded drops the oldest ended work whose requests are over. It keeps the tracker from
// growing with every unanswered request. An acknowledgement checks its own root with pending.
func (r *workTracker) forgetEnded() {
	for {
		r.mu.Lock()
		if len(r.late) == 0 {
			r.mu.Unlock()
			return
		}
		p := r.late[0]
		r.mu.Unlock()
		if p.scope.Open() {
			return
		}
		r.mu.Lock()
		if len(r.late) > 0 && r.late[0] == p {
			r.late = r.late[1:]
			if e := r.roots[p.at]; e != nil {
				e.ended = slices.DeleteFunc(e.ended, func(other *workItem) bool { return other == p })
				r.dropIfEmpty(e)
			}
		}
		r.mu.Unlock()
	}
}

// pending reports whether a request of ended work on a root may still be carried out.
func (r *workTracker) pending(at protocol.Address) bool {
	r.mu.Lock()
	var ended []*workItem
	if e := r.roots[at]; e != nil {
		ended = slices.Clone(e.ended)
	}
	r.mu.Unlock()
	return slices.ContainsFunc(ended, func(p *workItem) bool { return p.scope.Open() })
}

// onChild returns the work on a child, whichever its root was then: work that has not returned, and
// work that has, but with requests that may still be carried out.
func (r *workTracker) onChild(at protocol.Address) (atWork, ended []*workItem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.roots {
		for p := range e.atWork {
			if p.child == at {
				atWork = append(atWork, p)
			}
		}
		for _, p := range e.ended {
			if p.child == at {
				ended = append(ended, p)
			}
		}
	}
	return atWork, ended
}

// get returns a copy of the state of a root, without its work.
func (r *workTracker) get(at protocol.Address) (known workState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.roots[at]; e != nil {
		known = *e
		known.atWork, known.ended = nil, nil
	}
	return known
}

// knows reports whether a change of a root may require a step.
func (r *workTracker) knows(at protocol.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	return e != nil && (e.drainState != protocol.Accepting || e.floor != "")
}

// has reports whether there is a state of a root.
func (r *workTracker) has(at protocol.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots[at] != nil
}

// begin reports whether the caller may advance a root's drain. If not, another goroutine does, and
// will look once more.
func (r *workTracker) begin(at protocol.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.stateOf(at)
	if e.busy {
		e.again = true
		return false
	}
	e.busy, e.again = true, false
	return true
}

// finish ends what begin allowed. It reports whether the root needs another look.
func (r *workTracker) finish(at protocol.Address) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	e.busy = false
	r.dropIfEmpty(e)
	return e.again
}

// inFlight returns how much work on a root has not returned.
func (r *workTracker) inFlight(at protocol.Address) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.roots[at].atWork)
}

// cancelWork ends the contexts of the work on a root.
func (r *workTracker) cancelWork(at protocol.Address, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.roots[at].atWork {
		p.cancel(cause)
	}
}

// advance sets the drain state of a root, and raises its floor unless floor is empty. While the root
// is not Accepting, no more work on it is admitted. Only the caller that begin allowed may call it.
func (r *workTracker) advance(at protocol.Address, to protocol.DrainState, floor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	e.drainState = to
	if to == protocol.Closing {
		e.since, e.quietSince = time.Now(), time.Now()
	}
	if floor != "" && protocol.Reaches(floor, e.floor) {
		e.floor = floor
	}
}

// clearFloor drops the floor of a root if it is still this one.
func (r *workTracker) clearFloor(at protocol.Address, floor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.roots[at]; e.floor == floor {
		e.floor = ""
	}
}

// unfinished returns the roots of a resource whose drain is not finished.
func (r *workTracker) unfinished(resource schema.GroupVersionResource) []protocol.Address {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []protocol.Address
	for _, e := range r.roots {
		if e.at.Resource == resource && (e.drainState != protocol.Accepting || e.floor != "") {
			found = append(found, e.at)
		}
	}
	return found
}

// close admits no more work in a term.
func (r *workTracker) close(term *shardlease.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = term
}

// await returns when no work is in flight or ctx has ended.
func (r *workTracker) await(ctx context.Context) error {
	r.mu.Lock()
	works := r.works
	if works > 0 && r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	if works == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("shard: work is still in flight: %w", context.Cause(ctx))
	}
}

// stateOf returns the state of a root, or adds one. The caller holds mu.
func (r *workTracker) stateOf(at protocol.Address) *workState {
	e := r.roots[at]
	if e == nil {
		if r.roots == nil {
			r.roots = map[protocol.Address]*workState{}
		}
		e = &workState{at: at}
		r.roots[at] = e
	}
	return e
}

// dropIfEmpty removes the state of a root that there is nothing to remember of. The caller holds
// mu.
func (r *workTracker) dropIfEmpty(e *workState) {
	if e.drainState == protocol.Accepting && e.floor == "" && len(e.atWork) == 0 && len(e.ended) == 0 && !e.busy {
		delete(r.roots, e.at)
	}
}
