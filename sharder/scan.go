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
func (e *session) keepScanning(ctx context.Context, p *plan, news <-chan struct{}) {
	delay := minRescanDelay
	failures := kube.NewFailures(e.config.Logger, clock.System())
	busy := true // workers have the objects that the lists of a new plan found
	for {
		e.awaitQuiet(ctx, busy, delay, news)
		if ctx.Err() != nil {
			return
		}
		takeBack(e.unsettle) // this scan sees what is known so far
		takeBack(news)
		doubts := e.moves.doubts()
		t, err := e.scan(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failures.NoteAt(warning(ctx, err), "scan", err, "a scan of all objects failed, retrying", "")
		} else {
			failures.Over("scan")
		}
		if t.placed == t.objects || t.changed == 0 { // otherwise families are being moved
			gathered := e.gather(ctx, p)
			if gathered != nil && ctx.Err() == nil {
				e.config.Logger.Log(warning(ctx, gathered), "a scan of children failed, retrying",
					zap.Error(gathered))
			}
			err = errors.Join(err, gathered)
		}
		if err == nil && t.placed == t.objects {
			delay = minRescanDelay
			e.moves.found(doubts, nil)
			e.markSettled(ctx, p)
			if !e.awaitNextScan(ctx) {
				return
			}
			busy = false
			continue
		}
		e.settled.Store(false)
		// While there is progress, the next scan begins when the work of this one is done.
		busy = err == nil && (t.changed > 0 || e.drains.len() > 0)
		if t.changed > 0 {
			delay = minRescanDelay
			continue
		}
		longest := max(maxRescanDelay, e.config.ScanInterval)
		if err != nil && e.unknown == nil && !kube.Forbidden(err) {
			longest = maxRescanDelay // an outage may end at any time
		}
		delay = min(2*delay, longest)
		if left, ok := t.left(); ok && err == nil && delay > stuckAfter {
			e.moves.found(doubts, left)
			e.recordDisplaced(ctx, left)
		}
	}
}

// recordDisplaced records that a scan found all objects with their owners, except a few that are
// stuck, so that the memberships under which the others may have been assigned can be forgotten.
func (e *session) recordDisplaced(ctx context.Context, left []protocol.Root) {
	p := e.plan.Load()
	settled := protocol.History{
		Memberships: e.standingMemberships(p),
		Displaced:   protocol.Displaced{},
	}
	for _, v := range left {
		owners := p.owners(v.UID, v.Hash)
		if v.Recorded {
			owners = append(append(owners, v.Record.Owner()), v.Record.Left...)
		}
		slices.SortFunc(owners, protocol.OwnerEpoch.Compare)
		settled.Displaced[v.UID] = slices.DeleteFunc(slices.Compact(owners), e.store.ended)
	}
	if settled.Size() > protocol.MaxSettled {
		return
	}
	e.shrinkHistory(ctx, settled)
}

// standingMemberships are those under which objects may still be assigned, the present one last.
func (e *session) standingMemberships(p *plan) []protocol.Membership {
	h := protocol.HistoryOf(e.unfinishedMemberships(p)...)
	if len(p.living) > 0 {
		h = h.With(p.living)
	}
	return h.With(p.members).Memberships
}

// unfinishedMemberships are the memberships of former members that may still be alive. A drain sent
// under such a membership can still be carried out, and assign an object to such a shard.
func (e *session) unfinishedMemberships(p *plan) (all []protocol.Membership) {
	for _, m := range e.store.known.Memberships {
		if slices.ContainsFunc(m, func(t protocol.OwnerEpoch) bool {
			return !slices.Contains(p.members, t) && !e.store.ended(t)
		}) {
			all = append(all, m)
		}
	}
	return all
}

// shrinkHistory stores a history that a scan has proved, and reports whether it stands.
func (e *session) shrinkHistory(ctx context.Context, h protocol.History) bool {
	if e.store.stands.Equal(h) {
		return true
	}
	err := e.store.settle(ctx, h)
	p := e.plan.Load()
	_, _ = e.replan(p.members, p.living) // by what is known now, which after a failure may be more
	if err != nil && ctx.Err() == nil {
		e.config.Logger.Warn("the ring's history could not be shrunk, will be tried after the next scan",
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
func (e *session) awaitQuiet(ctx context.Context, busy bool, delay time.Duration, news <-chan struct{}) {
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
	for e.queue.busy() > 0 || e.drains.len() > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-limit.C:
		case <-news:
		case <-e.progress:
			timer.Stop()
			continue
		}
		timer.Stop()
		return
	}
}

// awaitNextScan waits for ScanInterval, or until something is known to be displaced. It returns
// false if ctx has ended.
func (e *session) awaitNextScan(ctx context.Context) bool {
	timer := time.NewTimer(e.config.ScanInterval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-e.unsettle:
	}
	return true
}

// scan reads all objects, page by page, and waits until the workers have handled what it found. If
// a resource cannot be listed, it continues with the others and returns an error.
func (e *session) scan(ctx context.Context) (*scanResult, error) {
	began := time.Now()
	t := newScanResult()
	errs := []error{e.unknown}
	for i := range e.resources {
		for _, src := range e.sources(i, e.resources[i].Selector) {
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				v, ok := e.rootOf(i, o)
				return !ok || e.scanObject(ctx, v, t)
			})
			errs = append(errs, err)
			if ctx.Err() != nil {
				return t, ctx.Err()
			}
		}
		errs = append(errs, e.stripDeselected(ctx, i))
	}
	if err := errors.Join(append(errs, t.wait(ctx))...); err != nil {
		return t, err
	}
	if e.config.Hooks.OnScan != nil {
		e.config.Hooks.OnScan(Scan{Objects: t.objects, Placed: t.placed, Shards: t.shards, Took: time.Since(began)})
	}
	return t, nil
}

// scanObject queues an object if it needs work. If the object must be drained, it waits for a slot.
// It returns false if ctx has ended.
func (e *session) scanObject(ctx context.Context, v protocol.Root, t *scanResult) bool {
	s := e.leases.situationOf(v, e.plan.Load())
	d := protocol.Decide(s)
	e.unowned.see(v.Ref, v.UID, s.Vacancy(), time.Now())
	t.count(v, d.Verb == protocol.Keep)
	switch {
	case d.Verb == protocol.Keep, d.Verb == protocol.Await, e.queue.waits(v.Ref):
		return ctx.Err() == nil
	case d.Verb == protocol.Hold:
		e.leases.ask(d.About)
		return ctx.Err() == nil
	}
	slot := d.Drain && !v.Drain
	if slot && !e.reserve(ctx, v, d, t) {
		return ctx.Err() == nil
	}
	if !e.queue.offer(ctx, v, t, slot) {
		if slot {
			e.drains.patched(v.Ref, false)
		}
		return false
	}
	return true
}

// reserve waits for a drain slot. Once a scan has waited long without success, it does not wait
// again, because other objects need no slot.
func (e *session) reserve(ctx context.Context, v protocol.Root, d protocol.Decision, t *scanResult) bool {
	ctx, cancel := context.WithTimeout(ctx, e.config.OverdueAfter)
	defer cancel()
	ok := e.drains.reserve(ctx, v.Ref, d.Label, time.Now(), !t.impatient)
	t.impatient = !ok
	return ok
}

// markSettled records that all objects are with their owners, and shrinks the ring's history.
func (e *session) markSettled(ctx context.Context, p *plan) {
	if !e.shrinkHistory(ctx, protocol.HistoryOf(e.standingMemberships(p)...)) {
		return
	}
	if !e.settled.Swap(true) {
		e.config.Logger.Info("all objects are with their owners", zap.Strings("members", p.members.Names()))
		if e.config.Hooks.OnSettled != nil {
			e.config.Hooks.OnSettled(p.members.Names())
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
func (t *scanResult) count(v protocol.Root, placed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.objects++
	if v.Label != "" {
		t.shards[v.Label]++
	}
	switch {
	case placed:
		t.placed++
	case len(t.displaced) < maxApart:
		t.displaced[v.Ref] = v
	default:
		t.many = true
	}
}

// expect records that a worker will handle a counted object.
func (t *scanResult) expect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending++
}

// outcome records the result of a worker, and whether it wrote the object.
func (t *scanResult) outcome(r protocol.Ref, placed, wrote bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if wrote {
		t.changed++
	}
	if placed {
		t.placed++
		delete(t.displaced, r)
	}
	t.check()
}

// left returns the displaced objects. ok is false if there are more than maxApart.
func (t *scanResult) left() (all []protocol.Root, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.displaced)), !t.many
}

func (t *scanResult) check() {
	if t.closing && t.pending == 0 {
		close(t.finished)
		t.closing = false
	}
}

// wait returns when all workers are done, or ctx has ended. It is called once, after the last
// expect.
func (t *scanResult) wait(ctx context.Context) error {
	t.mu.Lock()
	t.closing = true
	t.check()
	t.mu.Unlock()
	select {
	case <-t.finished:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
