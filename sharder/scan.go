package sharder

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	minRescanDelay = time.Second
	maxRescanDelay = time.Minute
	// stuckAfter is after what pauses between scans that change nothing an object counts as one
	// that does not get on.
	stuckAfter = 10 * time.Second
)

// keepScanning scans all objects: at once, again as long as some of them are not where they belong, and then every ScanInterval. news
// says that what scans depend on may have changed.
func (e *session) keepScanning(ctx context.Context, p *plan, news <-chan struct{}) {
	delay := minRescanDelay
	busy := true // with what the lists of a new plan have found
	for {
		e.awaitQuiet(ctx, busy, delay, news)
		if ctx.Err() != nil {
			return
		}
		takeBack(e.unsettle) // what is known by now, this scan will see
		takeBack(news)
		doubts := e.moves.doubts()
		t, err := e.scan(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.config.Logger.Warn("a scan of all objects failed, will be tried again", zap.Error(err))
		}
		if t.placed == t.objects || t.changed == 0 { // or children are on their way with their roots
			gathered := e.gather(ctx, p)
			if gathered != nil && ctx.Err() == nil {
				e.config.Logger.Warn("a scan of children failed, will be tried again", zap.Error(gathered))
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
		// While there is progress, the next scan comes when what this one has begun is done.
		busy = err == nil && (t.changed > 0 || e.drains.len() > 0)
		if t.changed > 0 {
			delay = minRescanDelay
			continue
		}
		delay = min(2*delay, max(maxRescanDelay, e.config.ScanInterval))
		if left, ok := t.left(); ok && err == nil && delay > stuckAfter {
			e.moves.found(doubts, left)
			e.recordDisplaced(ctx, left)
		}
	}
}

// recordDisplaced notes that all objects were found where they belong but for a few, which do not get on:
// the memberships under which the others may have been assigned need not be known any more.
func (e *session) recordDisplaced(ctx context.Context, left []protocol.Root) {
	p := e.plan.Load()
	settled := protocol.History{Memberships: append(e.unfinishedMemberships(p), p.members), Displaced: protocol.Displaced{}}
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

// unfinishedMemberships are the memberships of shards that are no members any more, and of which it is not known
// that they are over. Drains that were sent under these can still be carried out, and have objects
// given to such a shard.
func (e *session) unfinishedMemberships(p *plan) (all []protocol.Membership) {
	for _, m := range e.store.known.Memberships {
		if slices.ContainsFunc(m, func(t protocol.OwnerEpoch) bool { return !slices.Contains(p.members, t) && !e.store.ended(t) }) {
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
	_, _ = e.replan(e.plan.Load().members) // by what is known now, which after a failure may be more
	if err != nil && ctx.Err() == nil {
		e.config.Logger.Warn("the ring's history could not be shrunk, will be tried after the next scan", zap.Error(err))
	}
	return err == nil
}

// takeBack takes back what a channel has been told by poke.
func takeBack(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// awaitQuiet waits until nothing is going on any more, or there has been no progress for as long as delay, if busy is set; otherwise for
// delay, or for news.
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
	limit := time.NewTimer(maxRescanDelay) // objects may be created all the time
	defer limit.Stop()
	for e.queue.busy() > 0 || e.drains.len() > 0 {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-limit.C:
		case <-e.progress:
			timer.Stop()
			continue
		}
		timer.Stop()
		return
	}
}

// awaitNextScan waits for ScanInterval, or until something is known to be wrong. It reports whether ctx has not ended.
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

// scan looks at all objects, page by page, and waits until what it has found has been dealt with. It goes on where a resource cannot be listed,
// of which the error tells.
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
	}
	if err := errors.Join(append(errs, t.wait(ctx))...); err != nil {
		return t, err
	}
	if e.config.Hooks.OnScan != nil {
		e.config.Hooks.OnScan(Scan{Objects: t.objects, Placed: t.placed, Shards: t.shards, Took: time.Since(began)})
	}
	return t, nil
}

// scanObject is what a scan does about one object. It waits for a slot if the object is to be drained. It reports whether ctx has
// not ended.
func (e *session) scanObject(ctx context.Context, v protocol.Root, t *scanResult) bool {
	d := protocol.Decide(e.leases.situationOf(v, e.plan.Load()))
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

// reserve waits until a root may be drained. A scan that has waited for long without success waits no more: there are other objects.
func (e *session) reserve(ctx context.Context, v protocol.Root, d protocol.Decision, t *scanResult) bool {
	ctx, cancel := context.WithTimeout(ctx, e.config.OverdueAfter)
	defer cancel()
	ok := e.drains.reserve(ctx, v.Ref, d.Label, time.Now(), !t.impatient)
	t.impatient = !ok
	return ok
}

// markSettled notes that all objects were found where they belong, and shrinks the ring's history.
func (e *session) markSettled(ctx context.Context, p *plan) {
	if !e.shrinkHistory(ctx, protocol.HistoryOf(append(e.unfinishedMemberships(p), p.members)...)) {
		return
	}
	if !e.settled.Swap(true) {
		e.config.Logger.Info("all objects are with their owners", zap.Strings("members", p.members.Names()))
		if e.config.Hooks.OnSettled != nil {
			e.config.Hooks.OnSettled(p.members.Names())
		}
	}
}
