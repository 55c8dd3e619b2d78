package shardlease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

var (
	// ErrNotHeld is returned by everything that needs the lease while this process does not hold
	// it, and matched by every error of a guarded request ([Lease.WrapTransport]). Without
	// ErrOutcomeUnknown, the request was not sent.
	ErrNotHeld = errors.New("shardlease: the shard lease is not held")

	// ErrLost is matched by the error of OnLost and the cause of work's context. Their text names
	// the Lease, the reason, the present holder and the last renewal.
	ErrLost = lease.ErrLost

	// ErrUnfinished is matched, besides ErrLost, when the lease was lost because work may not have
	// ended: work, or a function of [Lease.AddReleaseGate], returned an error.
	ErrUnfinished = lease.ErrUnfinished

	// ErrForeign is returned by Run for a Lease of the shard's name that is not one of its ring.
	// The Lease is not written.
	ErrForeign = errors.New("shardlease: not a lease of this ring")

	// ErrUnhealthy is matched, besides ErrLost, when the lease was lost because [Config].Healthy
	// kept failing. The error wraps the last one of Healthy.
	ErrUnhealthy = lease.ErrUnhealthy

	// ErrSteppedDown is matched, besides ErrLost, by the cause of work's context if work must
	// return before the deadline ([Config].StepDown). The term lasts until then.
	ErrSteppedDown = lease.ErrSteppedDown

	// ErrOutcomeUnknown is matched, besides ErrNotHeld, by the error of a guarded request that was
	// under way when the term ended, and may be carried out.
	ErrOutcomeUnknown = lease.ErrOutcomeUnknown

	// ErrBusy is returned by Run while another Run of the same Lease has not returned.
	ErrBusy = errors.New("shardlease: Run of this lease is already running")
)

// Lease is the heartbeat of one shard. Its methods may be called at any time, but only one Run at a
// time.
type Lease struct {
	config    Config
	name      types.NamespacedName
	candidate *leasehold.Candidate
	waiting   waiting           // of Run
	busy      sync.Mutex        // held by Run
	release   func()            // guarded by busy: gives the name of the process up; nil if it has none
	claimed   *leasehold.Holder // guarded by busy: from ClaimOrdinal, for Run

	idle   atomic.Pointer[func() bool] // of package shard; nil means never
	hasten chan struct{}

	mu     sync.Mutex
	term   *Term                         // guarded by mu: the latest; nil before the first
	began  chan struct{}                 // guarded by mu: closed when the next term begins
	awaits []func(context.Context) error // guarded by mu
}

// New returns the lease of a shard. It sends no request. Make client from [LeaseConfig], for leases
// only. The error joins one error for each rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Lease, error) {
	if client == nil {
		return nil, errors.New("shardlease: client: must not be nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	hold := config.hold()
	if err := config.validate(hold); err != nil {
		return nil, err
	}
	config.Logger = config.Logger.With(zap.Stringer("lease", hold.Lease), zap.String("ring", config.Ring))
	l := &Lease{
		config: config, name: hold.Lease, began: make(chan struct{}), hasten: make(chan struct{}, 1),
	}
	hold.Log, hold.Hasten = config.Logger, l.hasten
	hold.OnLost = func(err *lease.LostError) { config.OnLost(err) }
	hold.OnHolder, hold.OnFinish = func(lease.Record) {}, func() {}
	hold.OnWait, hold.OnRenewal, hold.OnFailing = l.wait, config.Hooks.renewed, config.Hooks.OnFailing
	hold.Variant = leasehold.Variant{
		Unfit:   config.unfit,
		Reclaim: func(r lease.Record) bool { return config.reclaims(r, l.incarnation()) },
		Dress: func(o *coordinationv1.Lease, prior lease.Record, leaving bool) {
			config.dress(o, prior, l.incarnation(), leaving && config.pod != "", l.isIdle())
		},
		SaysLeaving: config.pod != "",
		Altered:     altered,
	}
	if l.candidate, err = leasehold.New(client, hold); err != nil {
		return nil, fmt.Errorf("shardlease: %w", err)
	}
	return l, nil
}

// Run acquires the lease, calls work, and renews the lease until work has returned. Then it
// releases the lease, so that the shard's objects go to others at once, and returns the error of
// work.
//
// work's context ends with ctx or with the lease, in the latter case with an [ErrLost] as its
// cause. When ctx ends, the lease is kept until work and the functions of [Lease.AddReleaseGate]
// have returned. It is released only if all of them returned nil, or work exactly the error of its
// context. Any other error, or runtime.Goexit, may mean that something still runs, and is therefore
// a loss ([ErrUnfinished]), which by default ends the process. Run returns nil when ctx has ended
// normally.
//
// If the lease is lost and OnLost returns, Run waits for work to return, acquires the lease again,
// and calls work again. It does the same if work has ended in time after it was asked to end before
// the deadline ([Config].StepDown), in which case the cause of its context matches
// [ErrSteppedDown]. If ctx has ended, or work may not have ended, Run returns the [ErrLost]
// instead. While it waits for the lease, Run returns an error if the Lease is not one of its ring
// ([ErrForeign]), or if the API server has refused a required request, or the credentials of this
// process, for a whole LeaseDuration. The error names the verb and the Lease.
func (l *Lease) Run(ctx context.Context, work func(context.Context) error) error {
	if work == nil {
		return errors.New("shardlease: Run: work: must not be nil")
	}
	if !l.busy.TryLock() {
		return ErrBusy
	}
	defer l.busy.Unlock()
	defer l.candidate.Contact.End()
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
		case h.SteppedDown() && ctx.Err() == nil && !whole.unfinished: // take it back
		case !h.Term.Lost():
			l.yieldName()
			return err
		case ctx.Err() != nil, whole.unfinished:
			return err // and keep the name: no other process may take the lease before it has expired
		}
	}
}

// acquire waits for the lease, unless it was claimed.
func (l *Lease) acquire(ctx context.Context) (*leasehold.Holder, error) {
	h := l.claimed
	l.claimed = nil
	if h == nil || h.Term.Lost() {
		return l.candidate.Wait(ctx)
	}
	return h, nil
}

// hold is one term.
func (l *Lease) hold(ctx context.Context, h *leasehold.Holder, w *whole) error {
	epoch, err := EpochOf(h.First().Lease())
	if err != nil { // from an admission webhook
		return errors.Join(fmt.Errorf("shardlease: Lease %s was not stored as it was written: %w", l.name,
			err), h.Release(ctx))
	}
	t := &Term{epoch: epoch, holder: h}
	l.setTerm(t)
	l.config.Logger.Info("shard lease acquired", zap.Stringer("epoch", epoch))
	l.config.Hooks.held(epoch)
	w.term = t
	err = l.candidate.Run(context.WithValue(ctx, termKey{}, t), h, w.run)
	if !h.Term.Lost() {
		did := "shard lease released"
		if h.SteppedDown() {
			did = "stepped down from the shard lease"
		}
		l.config.Logger.Info(did, zap.Stringer("epoch", epoch))
		l.config.Hooks.released(epoch)
	}
	return err
}

// whole is the work of one term, with everything that must end before the lease may be released.
type whole struct {
	lease      *Lease
	term       *Term
	work       func(context.Context) error
	unfinished bool
}

// run returns when everything has ended. If that is not certain, or if work ends by
// runtime.Goexit, it forfeits the term. A panic ends the process before that.
func (w *whole) run(ctx context.Context) error {
	w.unfinished = true
	cause := fmt.Errorf("%w: it did not return", ErrUnfinished)
	defer func() {
		if p := recover(); p != nil {
			panic(p) // OnLost may end the process before the runtime has said why
		}
		if w.unfinished {
			w.term.holder.Term.Forfeit(cause)
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

// isEndOf reports whether err is exactly the error of ctx, which has ended. An error that wraps it
// may come from work that still runs.
func isEndOf(ctx context.Context, err error) bool {
	return err == ctx.Err() || err == context.Cause(ctx) //nolint:errorlint // see above
}

// Ring returns the name of the shard's ring.
func (l *Lease) Ring() string { return l.config.Ring }

// Identity returns the name of the shard, of its Lease, and of the Lease's holder.
func (l *Lease) Identity() string { return l.config.Identity }

// Namespace returns the namespace of the Lease.
func (l *Lease) Namespace() string { return l.config.Namespace }

// Term returns the present term, or an ErrNotHeld with the reason why the lease is not held.
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

// NextTerm waits for a term other than last, which may be nil, and returns it, or the cause of
// ctx's end if ctx ends first. It is for code that runs longer than a term.
func (l *Lease) NextTerm(ctx context.Context, last *Term) (*Term, error) {
	for {
		l.mu.Lock()
		t, began := l.term, l.began
		l.mu.Unlock()
		if t != nil && t != last && t.Err() == nil {
			return t, nil
		}
		select {
		case <-began:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// AddReleaseGate adds a function that Run calls after work has returned, and that must return
// before the lease is released or acquired again. It refuses new work, waits for work in flight,
// and returns nil when no work is left. An error prevents the release ([ErrUnfinished]). ctx ends
// when the lease is lost; even then, the function must not return nil before everything has ended.
func (l *Lease) AddReleaseGate(ended func(ctx context.Context) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = append(l.awaits, ended)
}

// IdleWhile marks the Lease as that of an idle shard for as long as idle, which is called at each
// write of the Lease, returns true. The sharder gives no objects to such a shard; see [Idle]. Call
// the returned function when the result of idle has changed, so that the Lease is written soon.
// Package shard uses IdleWhile, and a second call replaces the first. idle is called from any
// goroutine and must return quickly.
func (l *Lease) IdleWhile(idle func() bool) (changed func()) {
	l.idle.Store(&idle)
	return func() {
		select {
		case l.hasten <- struct{}{}:
		default:
		}
	}
}

func (l *Lease) isIdle() bool {
	idle := l.idle.Load()
	return idle != nil && (*idle)()
}

func (l *Lease) awaited() []func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.awaits
}

func (l *Lease) setTerm(t *Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = t
	close(l.began)
	l.began = make(chan struct{})
}

// claimName makes this process the only one of its name in its Pod, if possible, so that a lease
// that names the Pod comes from a process that has ended.
func (l *Lease) claimName() {
	if l.config.PodUID == "" || l.release != nil {
		return
	}
	release, err := l.config.occupy("shardlease/" + l.config.Ring + "/" + l.name.String() + "/" +
		l.config.PodUID)
	if err != nil {
		l.config.Logger.Info("not taking the lease back from an earlier process of this Pod before it has expired",
			zap.Error(err))
		return
	}
	l.release = release
}

// incarnation is the PodUID while this process is the only one of its name in the Pod, and empty
// otherwise. A process that has written it has ended when another one gets the name.
func (l *Lease) incarnation() string {
	if l.release == nil {
		return ""
	}
	return l.config.PodUID
}

// yieldName undoes claimName. All work has ended.
func (l *Lease) yieldName() {
	if l.release != nil {
		l.release()
		l.release = nil
	}
}
