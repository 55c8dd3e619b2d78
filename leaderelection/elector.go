package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Term is one period of leadership.
type Term struct {
	// Identity of the leader.
	Identity string
	// LeaseUID is the UID of the Lease object.
	LeaseUID types.UID
	// Transitions is spec.leaseTransitions: how many terms this object has seen before.
	Transitions int32
	// Token is the resourceVersion of the write that began the term.
	Token string
	// Vacant is for how long this process had seen the Lease stand unchanged when it won it: since the last leader has released it, or since the
	// last renewal of one that died. It is 0 if there was none, and short if this process has only just begun to look.
	Vacant time.Duration
	// Released says that the last leader has released the Lease: Vacant is how long the hand-over took, and otherwise the failover.
	Released bool
}

// Elector contends for one Lease. Run, TryAcquire, Renew and Release exclude each other; the other methods may be called at
// any time.
type Elector struct {
	config    Config
	candidate *lease.Candidate
	guard     *lease.Guard
	busy      sync.Mutex // held by Run and by the single steps

	mu      sync.Mutex
	holder  *lease.Holder // guarded by mu: of the latest term; nil before the first
	running *lease.Holder // guarded by mu: the one that Run is busy with; nil if there is none
	seen    lease.Record  // guarded by mu: the record as last seen
	report  report        // guarded by mu
	events  events
}

// New returns an elector; it sends no request yet. client should be one of its own, made from [LeaseConfig].
// A client with a rate limit of less than two requests in a renew interval is refused. The error joins
// one error for every rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Elector, error) {
	if client == nil {
		return nil, errors.New("leaderelection: client: must not be nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	if err := lease.CheckRate(client, config.timing(), config.Logger); err != nil {
		return nil, fmt.Errorf("leaderelection: %w", err)
	}
	var killer lease.KillTimer
	if config.KernelDeadline {
		if killer, err = process.NewKillTimer(); err != nil {
			return nil, fmt.Errorf("leaderelection: KernelDeadline: %w", err)
		}
	}
	config.Logger = config.Logger.With(zap.Stringer("lease", config.lease()), zap.String("identity", config.Identity))
	e := &Elector{
		config: config, guard: lease.NewGuard(config.lease(), ErrNotLeader, lease.GuardConfig(config.Guard)),
		events: events{recorder: config.Events, lease: config.lease()},
	}
	e.candidate = lease.NewCandidate(client, lease.Config{
		Lease:          config.lease(),
		Identity:       config.Identity,
		Timing:         config.timing(),
		TrustForeign:   config.TrustForeignRelease,
		ReleaseTimeout: config.ReleaseTimeout,
		OnLost:         e.lose,
		OnHolder:       e.observe,
		OnFinish:       e.finish,
		OnRenewal:      e.renewed,
		Address:        config.Address,
		Health:         lease.NewHealth(config.Healthy),
		Guard:          e.guard,
		Clock:          config.Clock,
		KillTimer:      killer,
		Log:            config.Logger,
	})
	return e, nil
}

// Run waits until this process is the leader, calls lead, and renews the Lease until lead has returned. Then it releases the
// Lease and returns what lead returned.
//
// lead's context ends with ctx or with the leadership; in that case its cause is an [ErrLost]. When ctx ends, the Lease is
// kept until lead has returned, so that the successor begins after it. An error of lead that only says
// that ctx has ended is none: Run returns nil when ctx has ended normally.
//
// A release waits until no guarded request can be carried out any more ([Elector.WrapTransport]), as a rule for
// the answers alone, and renews the Lease meanwhile. Then it takes at most four renew intervals. If it
// fails, or if the Lease cannot be renewed, the successor waits until the Lease has expired.
//
// If leadership is lost and OnLost returns, Run waits for lead to return and contends again; lead is called anew. While it
// contends, Run gives up only if the API server has refused a request that it cannot do without for a whole
// LeaseDuration; the error names the verb and the Lease.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	if lead == nil { // before anything is written
		return errors.New("leaderelection: Run: lead: must not be nil")
	}
	if !e.busy.TryLock() {
		return ErrBusy
	}
	defer e.busy.Unlock()
	for {
		h := e.carried() // from TryAcquire
		if h == nil {
			var err error
			switch h, err = e.candidate.Wait(ctx); {
			case err == nil:
				e.begin(h)
			case ctx.Err() != nil:
				return nil
			default:
				return fmt.Errorf("leaderelection: %w", err)
			}
		}
		e.setRunning(h)
		err := h.Run(context.WithValue(ctx, termKey{}, e.term(h)), lead)
		e.setRunning(nil)
		if !h.Lost() {
			e.config.Logger.Info("stopped leading")
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// TryAcquire makes one attempt to become the leader. If the Lease is not free it returns a [HeldError] that names the leader. A
// dead leader's Lease has to be seen unchanged for as long as it lasts: TryAcquire succeeds when it is called again
// after HeldError.Wait.
//
// An attempt is up to four requests, each of which may take a renew interval. A write that is under way when ctx ends is
// waited for, here and in Renew and Release: abandoned, it could begin a term that nobody knows of.
//
// The term has begun when TryAcquire returns nil: Run carries it on, or Renew and Release do. If none of them is called in
// time, leadership is lost as in Run, and the default OnLost ends the process.
func (e *Elector) TryAcquire(ctx context.Context) (Term, error) {
	if !e.busy.TryLock() {
		return Term{}, ErrBusy
	}
	defer e.busy.Unlock()
	if err := ctx.Err(); err != nil {
		return Term{}, err
	}
	h := e.carried()
	if h == nil {
		var err error
		if h, err = e.candidate.Try(ctx); err != nil {
			return Term{}, fmt.Errorf("leaderelection: %w", err)
		}
		if h == nil {
			holder, wait := e.candidate.Standing()
			return Term{}, &HeldError{Lease: e.config.lease(), Holder: holder, Wait: wait}
		}
		e.begin(h)
	}
	return e.term(h), nil
}

// Renew renews the term that TryAcquire began. Nil means that its deadline has moved. After an error that is not an [ErrLost]
// the term goes on until its deadline.
func (e *Elector) Renew(ctx context.Context) error {
	if !e.busy.TryLock() {
		return ErrBusy
	}
	defer e.busy.Unlock()
	if h := e.current(); h != nil {
		return h.Renew(ctx)
	}
	return ErrNotLeader
}

// Release ends the term that TryAcquire began. The work that was done under it must have ended; guarded requests are waited for as
// in Run.
//
// After a loss, Release says just that the work has ended: it returns ErrNotLeader, and the KernelDeadline does not end the
// process any more.
func (e *Elector) Release(ctx context.Context) error {
	if !e.busy.TryLock() {
		return ErrBusy
	}
	defer e.busy.Unlock()
	if h := e.current(); h != nil {
		return h.Release(ctx)
	}
	if h := e.latest(); h != nil {
		h.DisarmKillTimer()
	}
	return ErrNotLeader
}

// IsLeader reports whether this process is the leader now. Without a fence on the server nothing keeps that true until the next
// statement: a process can be stopped between the two. Ask right before every act, and after every wait.
func (e *Elector) IsLeader() bool { return e.current() != nil }

// Remaining is for how long this process stays the leader if no further renewal succeeds; zero if it is not the leader.
func (e *Elector) Remaining() time.Duration {
	if h := e.current(); h != nil {
		return h.Remaining()
	}
	return 0
}

// Leader returns the identity of the leader as last seen, for display; ok is false if there is none or none has been seen yet.
// It may be long gone: Leader never sends a request.
func (e *Elector) Leader() (identity string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.Holder(), e.seen.Holder() != ""
}

// LeaderAddress returns what the leader has set as its Config.Address, with the same reservations as Leader; ok is false if there
// is no leader or it has set none.
func (e *Elector) LeaderAddress() (address string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.Address(), e.seen.Address() != ""
}

// current returns the holder of the running term, or nil.
func (e *Elector) current() *lease.Holder {
	h := e.latest()
	if h == nil || h.Remaining() == 0 {
		return nil
	}
	return h
}

// latest returns the holder of the latest term, also if it is over, or nil.
func (e *Elector) latest() *lease.Holder {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder
}

func (e *Elector) term(h *lease.Holder) Term {
	vacant, released := h.Vacant()
	return Term{
		Identity: e.config.Identity, LeaseUID: h.UID(), Transitions: h.Transitions(), Token: h.Token(), Vacant: vacant, Released: released,
	}
}

// carried is current for the methods that may begin a term. They begin none before the one is over that has reached its deadline,
// should its timer be late.
func (e *Elector) carried() *lease.Holder {
	h := e.current()
	if h == nil {
		e.mu.Lock()
		last := e.holder
		e.mu.Unlock()
		if last != nil {
			last.Expire()
		}
	}
	return h
}

func (e *Elector) begin(h *lease.Holder) {
	e.config.Logger.Info("started leading", zap.Int32("transitions", h.Transitions()))
	e.mu.Lock()
	e.holder = h
	e.mu.Unlock()
	e.reportStart(h)
}

func (e *Elector) setRunning(h *lease.Holder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = h
}

func (e *Elector) observe(r lease.Record) {
	holder := r.Holder()
	e.mu.Lock()
	changed := holder != e.seen.Holder()
	e.seen = r
	tell := e.newLeader(holder)
	e.mu.Unlock()
	if changed && holder != "" && holder != e.config.Identity {
		e.config.Logger.Info("following", zap.String("leader", holder))
	}
	tell()
}
