package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// Planner makes the plan for each membership, and keeps the ring's history.
type Planner struct {
	Shards    *Shards
	config    Config
	announced func(members []string) // is called with each new membership

	balance  balance
	history  historyStore // used by Load, by Follow and by what Follow serves
	known    atomic.Pointer[protocol.History]
	current  atomic.Pointer[Plan] // nil without members
	outlived atomic.Bool          // a new object waits for a plan without a member that does not renew its Lease
}

// NewPlanner returns a planner that knows no history yet.
func NewPlanner(config Config, shards *Shards, announced func(members []string)) *Planner {
	p := &Planner{Shards: shards, config: config, announced: announced}
	p.history = historyStore{config: config, over: p.ended}
	p.balance.factor = config.Balance
	p.known.Store(&protocol.History{})
	return p
}

func (p *Planner) ended(t protocol.OwnerEpoch) bool {
	return p.Shards.stateOf(t) == protocol.EpochEnded
}

// Current returns the plan for the present membership, or nil without members.
func (p *Planner) Current() *Plan { return p.current.Load() }

// Owners returns the shards, in the epochs in which they may have been assigned objects.
func (p *Planner) Owners() []protocol.OwnerEpoch { return p.known.Load().OwnerEpochs() }

// Named reports whether the ring's history names a shard.
func (p *Planner) Named(shard string) bool { return p.known.Load().Names(shard) }

// Load finds out under which memberships objects may have been assigned. inUse reports whether
// there are objects with owners. fresh means that the ring is new.
func (p *Planner) Load(ctx context.Context, inUse func(context.Context) (bool, error)) (fresh bool, err error) {
	err = p.history.load(ctx)
	if errors.Is(err, errNoHistory) {
		used, useErr := inUse(ctx)
		if useErr != nil {
			return false, useErr
		}
		if !used {
			p.balance.count(map[uint64]int{})
			return true, nil
		}
		// The history was lost: any living shard may work on any object.
		p.history.known = protocol.HistoryOf()
		for _, t := range p.Shards.present() {
			p.history.known = p.history.known.With(protocol.NewMembership(t))
		}
		p.config.Log.Warn("the ring's history is gone, though there are objects with owners: objects without a record "+
			"are taken from every shard in turn", zap.Error(err))
	} else if err != nil {
		return false, err
	}
	h := p.history.known
	p.known.Store(&h)
	return false, nil
}

// Observe returns the plan of a planner that does not run, from the state of the API server, or nil
// without members. It changes nothing.
func (p *Planner) Observe(ctx context.Context) (*Plan, error) {
	if _, err := p.Shards.List(ctx); err != nil {
		return nil, err
	}
	m, _ := p.Shards.members()
	if len(m) == 0 {
		return nil, nil
	}
	if err := p.history.load(ctx); err != nil && !errors.Is(err, errNoHistory) && !kube.Forbidden(err) {
		return nil, err
	}
	return newPlan(p.history.known.With(m), m, p.history.diverted)
}

// Follow calls serve with one plan after another until ctx ends. The context of serve ends when the
// membership has changed; news receives a value when something else that decisions may depend on
// has changed. Follow returns an error if the API server keeps refusing what it needs.
func (p *Planner) Follow(ctx context.Context,
	serve func(ctx context.Context, plan *Plan, news <-chan struct{}),
) error {
	pause := minPause
	var refused time.Time // since when
	for ctx.Err() == nil {
		m, wait := p.Shards.members()
		if len(m) == 0 {
			if p.current.Swap(nil) != nil {
				p.config.Log.Warn("there is no shard left: objects wait for one")
				p.announced(nil)
			}
			p.Shards.await(ctx, wait)
			continue
		}
		plan, err := p.adopt(ctx, m)
		if err == nil {
			pause, refused = minPause, time.Time{}
			p.serve(ctx, plan, serve)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case !kube.Forbidden(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) >= p.config.LeaseDuration:
			return fmt.Errorf("sharder: %w", err)
		}
		p.config.Log.Log(kube.LevelOf(ctx, err), "a new membership could not be stored, retrying",
			zap.Error(err))
		clock.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

// adopt returns the plan for a membership, once the ring's history contains it. The history then
// contains the membership without those that do not renew their Leases as well, so that new objects
// can be assigned among the others.
func (p *Planner) adopt(ctx context.Context, m protocol.Membership) (*Plan, error) {
	before := p.current.Load()
	diverted, err := p.balance.of(m, p.history.diverted)
	if err != nil {
		return nil, err
	}
	living := p.Shards.renewing(m)
	if len(living) > 0 && len(living) < len(m) {
		if err := p.history.begin(ctx, living, diverted); err != nil {
			return nil, err
		}
	}
	if err := p.history.begin(ctx, m, diverted); err != nil {
		return nil, err
	}
	plan, err := p.replan(m, living)
	if err != nil {
		return nil, err
	}
	if before != nil && slices.Equal(before.Members, m) {
		p.config.Log.Info("keys of objects go to other shards than the ring's, for balance",
			zap.Int("keys", len(diverted)))
		return plan, nil
	}
	p.config.Log.Info("the members of the ring have changed", zap.Strings("members", m.Names()))
	p.announced(m.Names())
	return plan, nil
}

// replan returns the plan for a membership, with all that is known of those before.
func (p *Planner) replan(m, living protocol.Membership) (*Plan, error) {
	h := p.history.known.With(m)
	plan, err := newPlan(h, m, p.history.diverted)
	if err != nil {
		return nil, err
	}
	plan.living = living
	p.known.Store(&h)
	p.current.Store(plan)
	p.balance.planned(plan)
	return plan, nil
}

// serve calls work with a plan until the membership changes.
func (p *Planner) serve(ctx context.Context, plan *Plan,
	work func(ctx context.Context, plan *Plan, news <-chan struct{}),
) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	news := make(chan struct{}, 1)
	all.Go(func() { work(ctx, plan, news) })
	all.Go(func() { p.resolveFormerMembers(ctx) })
	for ctx.Err() == nil {
		m, wait := p.Shards.members()
		if !slices.Equal(m, plan.Members) || p.isOutlived(plan) || p.balance.isDue() {
			return
		}
		if p.Shards.await(ctx, wait) || p.Shards.matured() {
			notify(news)
		}
	}
}

// isOutlived reports whether a new object waits for another plan because a member does not renew its
// Lease any more, or all members of a plan that was made for such a case renew theirs again.
func (p *Planner) isOutlived(plan *Plan) bool {
	living := p.Shards.renewing(plan.Members)
	if len(living) == len(plan.Members) {
		return len(plan.living) > 0 && len(plan.living) < len(plan.Members)
	}
	return p.outlived.Swap(false) && len(living) > 0 && !slices.Equal(living, plan.living)
}

// ErrReplanning means that an object waits for another plan, because its target does not renew its Lease, or has
// no room.
var ErrReplanning = errors.New("it waits for another plan of the ring")

// Count takes how many objects a scan has found of each key, by their hashes. Nil means that they are more than
// [MaxBalanced].
func (p *Planner) Count(objects map[uint64]int) {
	p.balance.count(objects)
	if p.balance.isDue() {
		notify(p.Shards.changed)
	}
}

// Admit returns ErrReplanning if the target of a plan has no room for a new object.
func (p *Planner) Admit(plan *Plan, hash uint64) error {
	ok := p.balance.admits(plan, hash)
	if p.balance.isDue() {
		notify(p.Shards.changed)
	}
	if !ok {
		return ErrReplanning
	}
	return nil
}

// FirstOwner returns the decision about an object that never had an owner. No shard that may be dead is
// asked.
func (p *Planner) FirstOwner(sit protocol.Situation, d protocol.Decision, plan *Plan) (
	protocol.Situation, protocol.Decision, error,
) {
	owner, ok := p.Shards.living(plan, sit.Hash)
	if ok {
		sit, d = sit.First(owner)
		return sit, d, nil
	}
	if len(p.Shards.renewing(plan.Members)) == 0 {
		return sit, d, nil
	}
	p.outlived.Store(true)
	notify(p.Shards.changed)
	return sit, d, ErrReplanning
}

// resolveFormerMembers reads the Leases of shards that the history names and whose state is
// unknown. Proving such a shard dead takes 2D. If that began only when needed, an object without a
// record would wait that long, even an hour from now.
func (p *Planner) resolveFormerMembers(ctx context.Context) {
	for _, t := range p.Owners() {
		if ctx.Err() != nil {
			return
		}
		if p.Shards.stateOf(t) == protocol.EpochUnknown && p.Shards.reread(ctx, t) == nil {
			// otherwise the next decision that needs it asks again
			p.Shards.Ask(t)
		}
	}
}

// Settle records that a scan found all objects with their owners, except a few that are stuck, so
// that the memberships under which the others may have been assigned can be forgotten. It reports
// whether the stored history says so.
func (p *Planner) Settle(ctx context.Context, stuck []protocol.Root) bool {
	plan := p.current.Load()
	settled := p.history.known.Settled(plan.Members, p.ended)
	if len(plan.living) > 0 {
		settled = settled.With(plan.living).With(plan.Members)
	}
	settled.Displaced = protocol.Displaced{}
	for _, v := range stuck {
		owners := plan.owners(v.UID, v.Hash)
		if v.Recorded {
			owners = append(append(owners, v.Record.Owner()), v.Record.Left...)
		}
		slices.SortFunc(owners, protocol.OwnerEpoch.Compare)
		settled.Displaced[v.UID] = slices.DeleteFunc(slices.Compact(owners), p.ended)
	}
	for hash := range plan.diverted {
		owners := plan.owners("", hash)
		slices.SortFunc(owners, protocol.OwnerEpoch.Compare)
		settled.Displaced[keyed(hash)] = slices.DeleteFunc(owners, p.ended)
	}
	switch {
	case len(stuck) > 0 && len(settled.Encode()) > protocol.MaxSettled:
		return false
	case p.history.stands.Equal(settled):
		return true
	}
	err := p.history.settle(ctx, settled)
	_, _ = p.replan(plan.Members, plan.living) // by what is known now, which after a failure may be more
	if err != nil && ctx.Err() == nil {
		p.config.Log.Warn("the ring's history could not be shrunk, will be tried after the next scan",
			zap.Error(err))
	}
	return err == nil
}
