package shardlease

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Lease is the heartbeat of one shard. All its methods may be called at any time, but only one Run
// runs.
type Lease struct {
	config    Config
	candidate *lease.Candidate
	guard     *lease.Guard
	waiting   waiting       // of Run
	busy      sync.Mutex    // held by Run
	release   func()        // guarded by busy: what occupy has returned; nil if there is none
	claimed   *lease.Holder // guarded by busy: by ClaimOrdinal, for Run

	mu      sync.Mutex
	term    *Term                         // guarded by mu: the latest; nil before the first
	running *Term                         // guarded by mu: the one that Run is busy with; nil if there is none
	awaits  []func(context.Context) error // guarded by mu
}

// New returns the lease of a shard; it sends no request yet. client should be one of its own, made
// from [LeaseConfig]. The error joins one error for every rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Lease, error) {
	if client == nil {
		return nil, errors.New("shardlease: client: must not be nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := lease.CheckRate(client, config.timing(), config.Logger); err != nil {
		return nil, fmt.Errorf("shardlease: %w", err)
	}
	if config.KernelDeadline && config.killer == nil {
		if config.killer, err = process.NewKillTimer(); err != nil {
			return nil, fmt.Errorf("shardlease: KernelDeadline: %w", err)
		}
	}
	config.Logger = config.Logger.With(zap.Stringer("lease", config.lease()), zap.String("ring", config.Ring))
	l := &Lease{config: config, guard: lease.NewGuard(config.lease(), ErrNotHeld, lease.GuardConfig(config.Guard))}
	l.candidate = lease.NewCandidate(client, lease.Config{
		Lease:          config.lease(),
		Identity:       config.Identity,
		Timing:         config.timing(),
		ReleaseTimeout: config.ReleaseTimeout,
		OnLost:         func(err *lease.LostError) { config.OnLost(err) },
		OnHolder:       func(lease.Record) {},
		OnFinish:       func() {},
		OnWait:         l.wait,
		OnRenewal:      config.Hooks.renewed,
		Health:         lease.NewHealth(config.Healthy),
		Guard:          l.guard,
		Clock:          config.Clock,
		KillTimer:      config.killer,
		Log:            config.Logger,
		Variant: lease.Variant{
			Unfit:   config.unfit,
			Reclaim: func(r lease.Record) bool { return config.reclaims(r, l.incarnation()) },
			Dress: func(o *coordinationv1.Lease, prior lease.Record, leaving bool) {
				config.dress(o, prior, l.incarnation(), leaving && config.pod != "")
			},
			SaysLeaving: config.pod != "",
			Altered:     altered,
		},
	})
	return l, nil
}

// Run acquires the lease, calls work, and renews the lease until work has returned. Then it
// releases the lease, by which the shard's objects go to others at once, and returns what work
// returned.
//
// work's context ends with ctx or with the lease; in that case its cause is an [ErrLost]. When ctx
// ends, the lease is kept until work has returned, and what [Lease.Await] was given. The lease is
// released only if all of them returned nil, or work exactly the error of its context: work that
// returns any other error may have left something running, so that is a loss ([ErrUnfinished]),
// which by default ends the process. Run returns nil when ctx has ended normally.
//
// If the lease is lost and OnLost returns, Run waits for work to return and acquires the lease
// again, and calls work again. It does not if ctx has ended, or if work may not have: then it
// returns the [ErrLost]. While it waits for the lease, Run gives up if the Lease is none of its
// ring ([ErrForeign]), or if the API server has refused a request that it cannot do without for a
// whole LeaseDuration; the error names the verb and the Lease.
func (l *Lease) Run(ctx context.Context, work func(context.Context) error) error {
	if work == nil {
		return errors.New("shardlease: Run: work: must not be nil")
	}
	if !l.busy.TryLock() {
		return ErrBusy
	}
	defer l.busy.Unlock()
	l.claimName()
	for {
		h, err := l.acquire(ctx)
		if err != nil {
			l.yieldName()
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("shardlease: %w", err)
		}
		whole := &whole{lease: l, work: work}
		err = l.hold(ctx, h, whole)
		switch {
		case !h.Lost():
			l.yieldName()
			return err
		case ctx.Err() != nil, whole.unfinished:
			return err // and keeps the name: no other may take the lease before it has expired
		}
	}
}

// acquire waits for the lease, unless it was claimed.
func (l *Lease) acquire(ctx context.Context) (*lease.Holder, error) {
	h := l.claimed
	l.claimed = nil
	if h == nil || h.Lost() {
		return l.candidate.Wait(ctx)
	}
	return h, nil
}

// hold is one term.
func (l *Lease) hold(ctx context.Context, h *lease.Holder, w *whole) error {
	epoch, err := EpochOf(h.First().Lease())
	if err != nil { // an admission webhook's doing
		return errors.Join(fmt.Errorf("shardlease: Lease %s was not stored as it was written: %w", l.config.lease(),
			err), h.Release(ctx))
	}
	t := &Term{epoch: epoch, holder: h}
	l.setTerm(t, t)
	l.config.Logger.Info("shard lease acquired", zap.Stringer("epoch", epoch))
	l.config.Hooks.held(epoch)
	w.term = t
	err = h.Run(context.WithValue(ctx, termKey{}, t), w.run)
	l.setTerm(t, nil)
	if !h.Lost() {
		l.config.Logger.Info("shard lease released", zap.Stringer("epoch", epoch))
		l.config.Hooks.released(epoch)
	}
	return err
}

// whole is the work of one term, with all that has to end before the lease may be released.
type whole struct {
	lease      *Lease
	term       *Term
	work       func(context.Context) error
	unfinished bool
}

// run returns when everything has ended. If it cannot say so, it forfeits the term: also when the
// work ends by runtime.Goexit.
func (w *whole) run(ctx context.Context) error {
	w.unfinished = true
	cause := fmt.Errorf("%w: it did not return", ErrUnfinished)
	defer func() {
		if w.unfinished {
			w.term.holder.Forfeit(cause)
		}
	}()
	err := w.work(ctx)
	if err != nil && !isEndOf(ctx, err) {
		cause = fmt.Errorf("%w: it returned an error: %w", ErrUnfinished, err)
		return err
	}
	rest, scope := w.term.Scope(context.WithoutCancel(ctx))
	defer scope.End()
	for _, ended := range w.lease.awaited() {
		if err := ended(rest); err != nil {
			cause = fmt.Errorf("%w: %w", ErrUnfinished, err)
			return err
		}
	}
	w.unfinished = false
	return err
}

// isEndOf reports whether err is the error of ctx, which has ended, and nothing more: one that
// wraps it may be of somebody who was in a hurry.
func isEndOf(ctx context.Context, err error) bool {
	return err == ctx.Err() || err == context.Cause(ctx) //nolint:errorlint // see above
}

// Ring is the name of the ring that the shard is in.
func (l *Lease) Ring() string { return l.config.Ring }

// Identity is the name of the shard, of its Lease, and of its holder.
func (l *Lease) Identity() string { return l.config.Identity }

// Namespace is that of the Lease.
func (l *Lease) Namespace() string { return l.config.Namespace }

// Term returns the term that is held now. The error is an ErrNotHeld that says why there is none.
func (l *Lease) Term() (*Term, error) {
	l.mu.Lock()
	t := l.term
	l.mu.Unlock()
	if t == nil {
		return nil, fmt.Errorf("%w: not yet acquired", ErrNotHeld)
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// AddReleaseGate adds something that has to have ended, besides the work function, before the lease
// is released or acquired again: Run calls ended after work has returned, and keeps the lease until
// ended has. It refuses new work from then on, waits for what is in flight, and returns nil when
// nothing is. An error keeps Run from releasing ([ErrUnfinished]). ctx ends when the lease is lost;
// also then ended must not return nil before everything has ended.
func (l *Lease) AddReleaseGate(ended func(ctx context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = append(l.awaits, ended)
}

func (l *Lease) awaited() []func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.awaits
}

func (l *Lease) setTerm(latest, running *Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term, l.running = latest, running
}

// claimName makes this process the only one of its name in its Pod, if it can: then a lease of that
// Pod's was left behind by a process that has ended.
func (l *Lease) claimName() {
	if l.config.Incarnation == "" || l.release != nil {
		return
	}
	release, err := l.config.occupy("shardlease/" + l.config.Ring + "/" + l.config.lease().String() + "/" +
		l.config.Incarnation)
	if err != nil {
		l.config.Logger.Info("not taking the lease back from an earlier process of this Pod before it has expired",
			zap.Error(err))
		return
	}
	l.release = release
}

// incarnation is that of this process while it is the only one of its name, empty otherwise: who
// writes it into a record can be relied on to have ended when somebody else has the name.
func (l *Lease) incarnation() string {
	if l.release == nil {
		return ""
	}
	return l.config.Incarnation
}

// yieldName takes back claimName. Whatever work there was has ended.
func (l *Lease) yieldName() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}
