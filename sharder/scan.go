package sharder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	minRescanDelay = time.Second
	maxRescanDelay = time.Minute
	// stuckAfter is the delay between scans without progress after which displaced objects count as
	// stuck.
	stuckAfter = 10 * time.Second
)

// scanner scans all objects.
type scanner struct {
	objects  *objects
	planner  *membership.Planner
	feeder   *feeder // of children
	queue    *queue
	drains   *drains
	families *families
	unowned  *unowned

	settled atomic.Bool // the latest scan has found all objects with their owners
}

// run scans all objects: at once, again while some are displaced, and then every
// ScanInterval. news receives a value when something that scans depend on may have changed.
func (s *scanner) run(ctx context.Context, p *membership.Plan, news <-chan struct{}) {
	delay := minRescanDelay
	failures := kube.NewFailures(s.objects.config.Logger, clock.System())
	busy := true // workers have the objects that the lists of a new plan found
	for {
		s.awaitQuiet(ctx, busy, delay, news)
		if ctx.Err() != nil {
			return
		}
		takeBack(s.queue.unsettled) // this scan sees what is known so far
		takeBack(news)
		doubts := s.families.doubts()
		t, err := s.scan(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures.NoteAt(kube.LevelOf(ctx, err), "scan", err, "a scan of all objects failed, retrying", "")
		} else {
			failures.Over("scan")
		}
		if t.placed == t.objects || t.changed == 0 { // otherwise families are being moved
			gathered := s.gather(ctx, p)
			if gathered != nil && ctx.Err() == nil {
				s.objects.config.Logger.Log(kube.LevelOf(ctx, gathered), "a scan of children failed, retrying",
					zap.Error(gathered))
			}
			err = errors.Join(err, gathered)
		}
		if err == nil && t.placed == t.objects {
			delay = minRescanDelay
			s.families.found(doubts, nil)
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
		longest := max(maxRescanDelay, s.objects.config.ScanInterval)
		if err != nil && s.objects.unserved == nil && !kube.Forbidden(err) {
			longest = maxRescanDelay // an outage may end at any time
		}
		delay = min(2*delay, longest)
		if left, ok := t.left(); ok && err == nil && delay > stuckAfter {
			s.families.found(doubts, left)
			s.planner.Settle(ctx, left)
		}
	}
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
func (s *scanner) awaitQuiet(ctx context.Context, busy bool, delay time.Duration, news <-chan struct{}) {
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
		case <-s.queue.progress:
			timer.Stop()
			continue
		}
		timer.Stop()
		return
	}
}

// awaitNextScan waits for ScanInterval, or until something is known to be displaced. It returns
// false if ctx has ended.
func (s *scanner) awaitNextScan(ctx context.Context) bool {
	timer := time.NewTimer(s.objects.config.ScanInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-s.queue.unsettled:
	}
	return true
}

// scan reads all objects, page by page, and waits until the workers have handled what it found. If
// a resource cannot be listed, it continues with the others and returns an error.
func (s *scanner) scan(ctx context.Context) (*scanResult, error) {
	began := time.Now()
	t := newScanResult()
	errs := []error{s.objects.unserved}
	for i := range s.objects.roots {
		for _, src := range s.objects.sources(i, s.objects.roots[i].Selector) {
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				v, ok := s.objects.rootOf(i, o)
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
	s.planner.Count(t.keys)
	s.objects.config.Hooks.OnScan(Scan{Objects: t.objects, Placed: t.placed, Shards: t.shards, Took: time.Since(began)})
	return t, nil
}

// scanObject queues an object if it needs work. If the object must be drained, it waits for a slot.
// It returns false if ctx has ended.
func (s *scanner) scanObject(ctx context.Context, v protocol.Root, t *scanResult) bool {
	sit := s.planner.Shards.SituationOf(v, s.planner.Current())
	d := protocol.Decide(sit)
	s.unowned.see(v.Ref, v.UID, sit.Vacancy(), time.Now())
	t.count(v, d.Verb == protocol.Keep)
	switch {
	case d.Verb == protocol.Keep, d.Verb == protocol.Await, s.queue.waits(v.Ref):
		return ctx.Err() == nil
	case d.Verb == protocol.Hold:
		s.planner.Shards.Ask(d.About)
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
func (s *scanner) reserve(ctx context.Context, v protocol.Root, d protocol.Decision, t *scanResult) bool {
	ctx, cancel := context.WithTimeout(ctx, s.objects.config.OverdueAfter)
	defer cancel()
	ok := s.drains.reserve(ctx, v.Ref, d.Label, time.Now(), !t.impatient)
	t.impatient = !ok
	return ok
}

// gather queues the children that are with no member although their roots are, because they were
// created with the label of a dead shard, or an attempt to assign them failed. A child with another
// member than its root is found by that member.
func (s *scanner) gather(ctx context.Context, p *membership.Plan) error {
	s.families.forgetOutside()
	o := s.objects
	var errs []error
	for i := len(o.roots); i < len(o.graph.All); i++ {
		misled := with(labels.Everything(), o.keys.Drain, selection.Exists)
		for _, src := range append(o.sources(i, movable(p.Members, o.keys)), o.sources(i, misled)...) {
			_, err := src.pages(ctx, func(object *metav1.PartialObjectMetadata) bool {
				if _, member := p.Members.Member(o.keys.ShardOf(object)); member && !o.keys.Draining(object) {
					// the selector would have been too long
					return ctx.Err() == nil
				}
				return s.feeder.offerChild(ctx, i, object)
			})
			errs = append(errs, err) // the other resources may still be listed
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return errors.Join(errs...)
}

// markSettled records that all objects are with their owners, and shrinks the ring's history.
func (s *scanner) markSettled(ctx context.Context, p *membership.Plan) {
	if !s.planner.Settle(ctx, nil) {
		return
	}
	if !s.settled.Swap(true) {
		s.objects.config.Logger.Info("all objects are with their owners", zap.Strings("members", p.Members.Names()))
		s.objects.config.Hooks.OnSettled(p.Members.Names())
	}
}

// scanResult is the result of a scan of all objects.
type scanResult struct {
	impatient bool // owned by the scanning goroutine: wait for no more slots

	mu       sync.Mutex
	finished chan struct{} // closed when nothing is pending
	pending  int           // objects that are with a worker, and the scan itself
	objects  int
	placed   int
	changed  int            // objects that were written
	shards   map[string]int // number of objects by shard
	keys     map[uint64]int // number of objects by the hash of their key; nil: more than can be balanced

	// displaced are the objects that are not with their owners, up to maxApart.
	displaced map[protocol.Ref]protocol.Root
	many      bool
}

// maxApart is how many objects may be displaced in a ring that otherwise counts as settled.
const maxApart = 100

func newScanResult() *scanResult {
	return &scanResult{
		finished: make(chan struct{}), pending: 1, shards: map[string]int{}, keys: map[uint64]int{},
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
	if r.keys != nil {
		if r.keys[v.Hash]++; len(r.keys) > membership.MaxBalanced {
			r.keys = nil
		}
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
	if wrote {
		r.changed++
	}
	if placed {
		r.placed++
		delete(r.displaced, of)
	}
	r.end()
}

// end ends what was pending. The caller holds mu.
func (r *scanResult) end() {
	if r.pending--; r.pending == 0 {
		close(r.finished)
	}
}

// left returns the displaced objects. ok is false if there are more than maxApart.
func (r *scanResult) left() (all []protocol.Root, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.displaced)), !r.many
}

// wait returns when all workers are done, or ctx has ended. It is called once, after the last
// expect.
func (r *scanResult) wait(ctx context.Context) error {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	select {
	case <-r.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
