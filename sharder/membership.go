package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// govern follows the membership until ctx has ended: one reign after another. It returns an error if it may not do what it has to.
func (e *session) followMembership(ctx context.Context) error {
	pause := minPause
	var refused time.Time // since when
	for ctx.Err() == nil {
		m, wait := e.leases.membership()
		if len(m) == 0 {
			if e.plan.Swap(nil) != nil {
				e.config.Logger.Warn("there is no shard left: objects wait for one")
				e.announce(nil)
			}
			e.await(ctx, wait)
			continue
		}
		p, err := e.adoptMembership(ctx, m)
		if err == nil {
			pause, refused = minPause, time.Time{}
			e.serveMembership(ctx, p)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !apierrors.IsForbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= e.config.LeaseDuration:
			return fmt.Errorf("sharder: %w", err)
		}
		e.config.Logger.Warn("a new membership could not be stored, will be tried again", zap.Error(err))
		clock.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

// await waits until the registry has changed, which it reports, or for some time; zero: for ever.
func (e *session) await(ctx context.Context, wait time.Duration) (changed bool) {
	if wait <= 0 {
		wait = time.Hour
	}
	timer := e.config.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-e.changed:
		return true
	}
	return false
}

// adopt makes a plan for a membership, once the ring's history says that there is one.
func (e *session) adoptMembership(ctx context.Context, m protocol.Membership) (*plan, error) {
	if err := e.store.begin(ctx, m); err != nil {
		return nil, err
	}
	p, err := e.replan(m)
	if err != nil {
		return nil, err
	}
	kept := map[string]bool{} // also one that is no member may come back in the life in which it was given children
	for _, shard := range append(m.Names(), e.leases.known()...) {
		kept[shard] = true
	}
	e.floors.prune(kept)
	e.settled.Store(false)
	e.config.Logger.Info("objects are distributed among other shards", zap.Strings("members", m.Names()))
	e.announce(m.Names())
	return p, nil
}

// replan makes a plan for a membership by all that is known of those before.
func (e *session) replan(m protocol.Membership) (*plan, error) {
	h := e.store.known.With(m)
	p, err := newPlan(h, ring.WithTokens(e.config.TokensPerShard))
	if err != nil {
		return nil, err
	}
	e.history.Store(&h)
	e.plan.Store(p)
	return p, nil
}

func (e *session) announce(members []string) {
	if e.config.Hooks.OnMembership != nil {
		e.config.Hooks.OnMembership(members)
	}
}

// reign distributes objects by a plan until there is another membership.
func (e *session) serveMembership(ctx context.Context, p *plan) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var listed sync.WaitGroup
	for i, r := range e.resources {
		selector := r.Selector
		if !e.config.WatchAll {
			selector = p.strays(e.keys, r.Selector)
		}
		for _, src := range e.sources(i, selector) {
			listed.Add(1)
			once := sync.OnceFunc(listed.Done)
			all.Go(func() {
				defer once()
				src.run(ctx, sink{
					found: func(o *metav1.PartialObjectMetadata) bool {
						v, ok := e.rootOf(i, o)
						return !ok || e.enqueueIfNeeded(ctx, v)
					},
					listed: once, failed: once, // other resources do not wait for one that cannot be listed
				})
			})
		}
	}
	all.Go(func() { e.resolveFormerMembers(ctx) })
	news := make(chan struct{}, 1)
	all.Go(func() {
		listed.Wait()
		e.keepScanning(ctx, p, news)
	})
	for ctx.Err() == nil {
		m, wait := e.leases.membership()
		if !slices.Equal(m, p.members) {
			return
		}
		if e.await(ctx, wait) || e.leases.matured() {
			notify(news)
		}
	}
}

// acquaint reads the Leases that the history names and of which nothing is known. That their shards
// are gone takes twice a Lease's duration to prove: or every object without a record would wait for
// so long, also the first that comes after an hour.
func (e *session) resolveFormerMembers(ctx context.Context) {
	for _, t := range e.history.Load().OwnerEpochs() {
		if ctx.Err() != nil {
			return
		}
		if e.leases.lifeOf(t) == protocol.EpochUnknown && e.leases.reread(ctx, t) == nil { // or whoever has to know asks again
			e.leases.ask(t)
		}
	}
}

const (
	minRescanDelay = time.Second
	maxRescanDelay = time.Minute
	// maxSettling is after what pauses between scans that change nothing an object counts as one
	// that does not get on.
	stuckAfter = 10 * time.Second
)

// settle scans all objects: at once, again as long as some of them are not where they belong, and then every ScanInterval. news
// says that what scans depend on may have changed.
func (e *session) keepScanning(ctx context.Context, p *plan, news <-chan struct{}) {
	unrest := minRescanDelay
	busy := true // with what the lists of a new plan have found
	for {
		e.awaitQuiet(ctx, busy, unrest, news)
		if ctx.Err() != nil {
			return
		}
		clear(e.unsettle) // what is known by now, this scan will see
		clear(news)
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
			unrest = minRescanDelay
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
			unrest = minRescanDelay
			continue
		}
		unrest = min(2*unrest, max(maxRescanDelay, e.config.ScanInterval))
		if left, ok := t.left(); ok && err == nil && unrest > stuckAfter {
			e.moves.found(doubts, left)
			e.recordDisplaced(ctx, left)
		}
	}
}

// setApart notes that all objects were found where they belong but for a few, which do not get on:
// the memberships under which the others may have been assigned need not be known any more.
func (e *session) recordDisplaced(ctx context.Context, left []protocol.Root) {
	p := e.plan.Load()
	settled := protocol.History{append(e.unfinishedMemberships(p), p.members), protocol.Displaced{}}
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

// lingering are the memberships of shards that are no members any more, and of which it is not known
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

// shrink stores a history that a scan has proved, and reports whether it stands.
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

// forget takes back what a channel has been told by poke.
func clear(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// quiet waits until nothing is going on any more, or there has been no progress for as long as unrest, if busy is set; otherwise for
// unrest, or for news.
func (e *session) awaitQuiet(ctx context.Context, busy bool, unrest time.Duration, news <-chan struct{}) {
	if !busy {
		timer := time.NewTimer(unrest)
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
		timer := time.NewTimer(unrest)
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

// content waits for ScanInterval, or until something is known to be wrong. It reports whether ctx has not ended.
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

// inspect is what a scan does about one object. It waits for a slot if the object is to be drained. It reports whether ctx has
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

// concluded notes that all objects were found where they belong, and shrinks the ring's history.
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
