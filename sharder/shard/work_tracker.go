package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// workItem is one piece of work on a root, from its admission until nothing of it can happen any more.
type workItem struct {
	at     protocol.Address
	term   *shardlease.Term
	scope  interface{ Open() bool } // a shardlease.Scope, which asks a clock: not under the lock
	cancel context.CancelCauseFunc
}

// workState is what a process has to remember of a root: nothing, of most.
type workState struct {
	at         protocol.Address
	drainState protocol.DrainState
	// since when it is closing.
	since time.Time
	// floor is the version that a copy must have reached before work may begin: it was this shard's before the acknowledgement too.
	// Empty: none.
	floor string
	// atWork is what is in flight.
	atWork map[*workItem]struct{}
	// ended is work that has returned, some of whose requests may still be carried out.
	ended []*workItem
	// busy says that somebody settles the root, and again that this somebody has to look at it once more.
	busy, again bool
}

// workTracker is what a process knows of the roots that it works on, lets go of, or has let go of. All controllers of the process share it:
// no work is admitted between the look at a root and the mark that no more may be.
type workTracker struct {
	mu     sync.Mutex
	roots  map[protocol.Address]*workState
	works  int              // in flight
	closed *shardlease.Term // in which no work may begin any more
	idle   chan struct{}    // closed when no work is in flight; nil unless somebody waits for that
	late   []*workItem      // of entry.ended, in the order in which they ended
}

// admit lets p begin, or says why not. look is called with the custody locked: a copy that was looked up before might have been
// acknowledged, and its floor forgotten, in between.
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

// leave notes that p has returned, and reports whether somebody waits for that. open says that a request of it may still be carried
// out.
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
	r.dropIfEmpty(e)
	return e.drainState == protocol.Closing && len(e.atWork) == 0
}

// forgetEnded drops the oldest pieces of ended work whose requests are over. It keeps the custody from growing with every request that
// nobody answers; a root that is acknowledged is looked at for itself.
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
				e.drop(p)
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
		ended = append(ended, e.ended...)
	}
	r.mu.Unlock()
	for _, p := range ended {
		if p.scope.Open() {
			return true
		}
	}
	return false
}

// get returns a copy of what is known of a root.
func (r *workTracker) get(at protocol.Address) workState {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.roots[at]; e != nil {
		known := *e
		known.atWork, known.ended = nil, nil
		return known
	}
	return workState{}
}

// knows reports whether there is anything about a root that a change of it may bear on.
func (r *workTracker) knows(at protocol.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	return e != nil && (e.drainState != protocol.Accepting || e.floor != "")
}

// has reports whether there is anything to remember of a root.
func (r *workTracker) has(at protocol.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots[at] != nil
}

// begin reports whether the caller may settle a root. If not, somebody does, and will look at it once more.
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

// finish is called by who was let begin. It reports whether the root has to be looked at once more.
func (r *workTracker) finish(at protocol.Address) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	e.busy = false
	r.dropIfEmpty(e)
	return e.again
}

// startClosing closes a root: from now on no work on it is admitted.
func (r *workTracker) startClosing(at protocol.Address, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	e.drainState, e.since = protocol.Closing, now
}

// inFlight is how much work on a root has not returned.
func (r *workTracker) inFlight(at protocol.Address) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.roots[at].atWork)
}

// cancelWork tells the work on a root to end.
func (r *workTracker) cancelWork(at protocol.Address, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range r.roots[at].atWork {
		p.cancel(cause)
	}
}

// advance moves a root that the caller settles to a phase, and raises its floor unless that is empty.
func (r *workTracker) advance(at protocol.Address, to protocol.DrainState, floor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.roots[at]
	e.drainState = to
	if floor != "" && protocol.Reaches(floor, e.floor) {
		e.floor = floor
	}
}

// clearFloor drops the floor of a root, if it is still this one.
func (r *workTracker) clearFloor(at protocol.Address, floor string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.roots[at]; e.floor == floor {
		e.floor = ""
	}
}

// unfinished returns the roots of a resource that somebody has to settle.
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

// close lets no more work begin in a term.
func (r *workTracker) close(term *shardlease.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = term
}

// await returns when no work is in flight, or ctx has ended.
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

// stateOf returns the entry of a root, a new one if there is none. The caller holds mu.
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

// dropIfEmpty removes the entry of a root of which there is nothing to remember. The caller holds mu.
func (r *workTracker) dropIfEmpty(e *workState) {
	if e.drainState == protocol.Accepting && e.floor == "" && len(e.atWork) == 0 && len(e.ended) == 0 && !e.busy {
		delete(r.roots, e.at)
	}
}

func (e *workState) drop(p *workItem) {
	for i, other := range e.ended {
		if other == p {
			e.ended = append(e.ended[:i], e.ended[i+1:]...)
			return
		}
	}
}
