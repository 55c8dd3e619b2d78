package sharder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	minRescanDelay = time.Second
	maxRescanDelay = time.Minute
	// stuckAfter is the delay between scans without progress after which displaced objects count as
	// stuck.
	stuckAfter = 10 * time.Second
)

// keepScanning scans all objects: at once, again while some are displaced, and then every
// ScanInterval. news receives a value when something that scans depend on may have changed.
func (s *session) keepScanning(ctx context.Context, p *plan, news <-chan struct{}) {
	delay := minRescanDelay
	failures := kube.NewFailures(s.config.Logger, clock.System())
	busy := true // workers have the objects that the lists of a new plan found
	for {
		s.awaitQuiet(ctx, busy, delay, news)
		if ctx.Err() != nil {
			return
		}
		takeBack(s.unsettle) // this scan sees what is known so far
		takeBack(news)
		doubts := s.moves.doubts()
		t, err := s.scan(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures.NoteAt(warning(ctx, err), "scan", err, "a scan of all objects failed, retrying", "")
		} else {
			failures.Over("scan")
		}
		if t.placed == t.objects || t.changed == 0 { // otherwise families are being moved
			gathered := s.gather(ctx, p)
			if gathered != nil && ctx.Err() == nil {
				s.config.Logger.Log(warning(ctx, gathered), "a scan of children failed, retrying",
					zap.Error(gathered))
			}
			err = errors.Join(err, gathered)
		}
		if err == nil && t.placed == t.objects {
			delay = minRescanDelay
			s.moves.found(doubts, nil)
			s.markSettled(ctx, p)
			if !s.awaitNextScan(ctx) {
				return
			}
			busy = false
			continue
		}
		s.settled.Store(false)
		// While there is progress, the next scan begins when the work of this one is done.
		busy = err == nil && (t.changed > 0 || s.drains.len() > 0)
		if t.changed > 0 {
			delay = minRescanDelay
			continue
		}
		longest := max(maxRescanDelay, s.config.ScanInterval)
		if err != nil && s.unknown == nil && !kube.Forbidden(err) {
			longest = maxRescanDelay // an outage may end at any time
		}
		delay = min(2*delay, longest)
		if left, ok := t.left(); ok && err == nil && delay > stuckAfter {
			s.moves.found(doubts, left)
			s.recordDisplaced(ctx, left)
		}
	}
}

// recordDisplaced records that a scan found all objects with their owners, except a few that are
// stuck, so that the memberships under which the others may have been assigned can be forgotten.
func (s *session) recordDisplaced(ctx context.Context, left []protocol.Root) {
	p := s.plan.Load()
	settled := protocol.History{
		Memberships: s.standingMemberships(p),
		Displaced:   protocol.Displaced{},
	}
	for _, v := range left {
		owners := p.owners(v.UID, v.Hash)
		if v.Recorded {
			owners = append(append(owners, v.Record.Owner()), v.Record.Left...)
		}
		slices.SortFunc(owners, protocol.OwnerEpoch.Compare)
		settled.Displaced[v.UID] = slices.DeleteFunc(slices.Compact(owners), s.store.ended)
	}
	if len(settled.Encode()) > protocol.MaxSettled {
		return
	}
	s.shrinkHistory(ctx, settled)
}

// standingMemberships are those under which objects may still be assigned, the present one last.
func (s *session) standingMemberships(p *plan) []protocol.Membership {
	h := protocol.HistoryOf(s.unfinishedMemberships(p)...)
	if len(p.living) > 0 {
		h = h.With(p.living)
	}
	return h.With(p.members).Memberships
}

// unfinishedMemberships are the memberships of former members that may still be alive. A drain sent
// under such a membership can still be carried out, and assign an object to such a shard.
func (s *session) unfinishedMemberships(p *plan) (all []protocol.Membership) {
	for _, m := range s.store.known.Memberships {
		if slices.ContainsFunc(m, func(t protocol.OwnerEpoch) bool {
			return !slices.Contains(p.members, t) && !s.store.ended(t)
		}) {
			all = append(all, m)
		}
	}
	return all
}

// shrinkHistory stores a history that a scan has proved, and reports whether it stands.
func (s *session) shrinkHistory(ctx context.Context, h protocol.History) bool {
	if s.store.stands.Equal(h) {
		return true
	}
	err := s.store.settle(ctx, h)
	p := s.plan.Load()
	_, _ = s.replan(p.members, p.living) // by what is known now, which after a failure may be more
	if err != nil && ctx.Err() == nil {
		s.config.Logger.Warn("the ring's history could not be shrunk, will be tried after the next scan",
			zap.Error(err))
	}
	return err == nil
}

// takeBack drains a pending notification, if any.
func takeBack(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// awaitQuiet waits for delay, or for news. With busy, it waits for news, or until no work is left
// or none has progressed for delay.
func (s *session) awaitQuiet(ctx context.Context, busy bool, delay time.Duration, news <-chan struct{}) {
	if !busy {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-news:
		}
		return
	}
	limit := time.NewTimer(maxRescanDelay) // new objects must not delay the scan forever
	defer limit.Stop()
	for s.queue.busy() > 0 || s.drains.len() > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-limit.C:
		case <-news:
		case <-s.progress:
			timer.Stop()
			continue
		}
		timer.Stop()
		return
	}
}

// awaitNextScan waits for ScanInterval, or until something is known to be displaced. It returns
// false if ctx has ended.
func (s *session) awaitNextScan(ctx context.Context) bool {
	timer := time.NewTimer(s.config.ScanInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-s.unsettle:
	}
	return true
}

// scan reads all objects, page by page, and waits until the workers have handled what it found. If
// a resource cannot be listed, it continues with the others and returns an error.
func (s *session) scan(ctx context.Context) (*scanResult, error) {
	began := time.Now()
	t := newScanResult()
	errs := []error{s.unknown}
	for i := range s.resources {
		for _, src := range s.sources(i, s.resources[i].Selector) {
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				v, ok := s.rootOf(i, o)
				return !ok || s.scanObject(ctx, v, t)
			})
			errs = append(errs, err)
			if ctx.Err() != nil {
				return t, ctx.Err()
			}
		}
		errs = append(errs, s.stripDeselected(ctx, i))
	}
	if err := errors.Join(append(errs, t.wait(ctx))...); err != nil {
		return t, err
	}
	if s.config.Hooks.OnScan != nil {
		s.config.Hooks.OnScan(Scan{Objects: t.objects, Placed: t.placed, Shards: t.shards, Took: time.Since(began)})
	}
	return t, nil
}

// scanObject queues an object if it needs work. If the object must be drained, it waits for a slot.
// It returns false if ctx has ended.
func (s *session) scanObject(ctx context.Context, v protocol.Root, t *scanResult) bool {
	sit := s.leases.situationOf(v, s.plan.Load())
	d := protocol.Decide(sit)
	s.unowned.see(v.Ref, v.UID, sit.Vacancy(), time.Now())
	t.count(v, d.Verb == protocol.Keep)
	switch {
	case d.Verb == protocol.Keep, d.Verb == protocol.Await, s.queue.waits(v.Ref):
		return ctx.Err() == nil
	case d.Verb == protocol.Hold:
		s.leases.ask(d.About)
		return ctx.Err() == nil
	}
	slot := d.Drain && !v.Drain
	if slot && !s.reserve(ctx, v, d, t) {
		return ctx.Err() == nil
	}
	if !s.queue.offer(ctx, v, t, slot) {
		if slot {
			s.drains.patched(v.Ref, false)
		}
		return false
	}
	return true
}

// reserve waits for a drain slot. Once a scan has waited long without success, it does not wait
// again, because other objects need no slot.
func (s *session) reserve(ctx context.Context, v protocol.Root, d protocol.Decision, t *scanResult) bool {
	ctx, cancel := context.WithTimeout(ctx, s.config.OverdueAfter)
	defer cancel()
	ok := s.drains.reserve(ctx, v.Ref, d.Label, time.Now(), !t.impatient)
	t.impatient = !ok
	return ok
}

// markSettled records that all objects are with their owners, and shrinks the ring's history.
func (s *session) markSettled(ctx context.Context, p *plan) {
	if !s.shrinkHistory(ctx, protocol.HistoryOf(s.standingMemberships(p)...)) {
		return
	}
	if !s.settled.Swap(true) {
		s.config.Logger.Info("all objects are with their owners", zap.Strings("members", p.members.Names()))
		if s.config.Hooks.OnSettled != nil {
			s.config.Hooks.OnSettled(p.members.Names())
		}
	}
}

// scanResult is the result of a scan of all objects.
type scanResult struct {
	impatient bool // owned by the scanning goroutine: wait for no more slots

	mu       sync.Mutex
	finished chan struct{} // closed when closing is set and nothing is pending
	closing  bool
	pending  int // objects that are with a worker
	objects  int
	placed   int
	changed  int            // objects that were written
	shards   map[string]int // number of objects by shard

	// displaced are the objects that are not with their owners, up to maxApart.
	displaced map[protocol.Ref]protocol.Root
	many      bool
}

// maxApart is how many objects may be displaced in a ring that otherwise counts as settled.
const maxApart = 100

func newScanResult() *scanResult {
	return &scanResult{
		finished: make(chan struct{}), shards: map[string]int{},
		displaced: map[protocol.Ref]protocol.Root{},
	}
}

// count adds an object. placed means that it is with its owner already.
func (r *scanResult) count(v protocol.Root, placed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.objects++
	if v.Label != "" {
		r.shards[v.Label]++
	}
	switch {
	case placed:
		r.placed++
	case len(r.displaced) < maxApart:
		r.displaced[v.Ref] = v
	default:
		r.many = true
	}
}

// expect records that a worker will handle a counted object.
func (r *scanResult) expect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending++
}

// outcome records the result of a worker, and whether it wrote the object.
func (r *scanResult) outcome(of protocol.Ref, placed, wrote bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
	if wrote {
		r.changed++
	}
	if placed {
		r.placed++
		delete(r.displaced, of)
	}
	r.check()
}

// left returns the displaced objects. ok is false if there are more than maxApart.
func (r *scanResult) left() (all []protocol.Root, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.displaced)), !r.many
}

func (r *scanResult) check() {
	if r.closing && r.pending == 0 {
		close(r.finished)
		r.closing = false
	}
}

// wait returns when all workers are done, or ctx has ended. It is called once, after the last
// expect.
func (r *scanResult) wait(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	r.check()
	r.mu.Unlock()
	select {
	case <-r.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
