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
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
)

// Term is one period of leadership.
type Term struct {
	// Identity of the leader.
	Identity string
	// LeaseUID is the UID of the Lease object.
	LeaseUID types.UID
	// Transitions is spec.leaseTransitions: the number of earlier terms of this object.
	Transitions int32
	// Token is the resourceVersion of the write that began the term.
	Token string
	// Vacant is how long this process had seen the Lease unchanged when it won it: since the
	// release, or since the last renewal of a dead leader. It is 0 without a last leader, and short
	// if this process has just started to watch.
	Vacant time.Duration
	// Released reports whether the last leader released the Lease. Vacant is then the duration of
	// the handover, otherwise that of the failover.
	Released bool
}

// Elector contends for one Lease. Run, TryAcquire, Renew and Release exclude each other. Other
// methods may be called at any time.
type Elector struct {
	lease     types.NamespacedName
	identity  string
	hooks     Hooks
	onLost    func(error)
	log       *zap.Logger
	candidate *leasehold.Candidate
	busy      sync.Mutex // held by Run, TryAcquire, Renew and Release

	mu     sync.Mutex        // guards the next three
	holder *leasehold.Holder // of the latest term; nil before the first
	seen   lease.Record      // the last seen record
	report report
	events eventLog
}

// New returns an elector. It sends no request. Make client from [LeaseConfig], for electors only. A
// client with a rate limit below two requests in a renew interval is refused. The error
// joins one error for each rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Elector, error) {
	if client == nil {
		return nil, errors.New("leaderelection: client: must not be nil")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Elector{}
	hold := config.hold()
	if err := config.validate(hold); err != nil {
		return nil, err
	}
	hold.Log = config.Logger.With(zap.Stringer("lease", hold.Lease), zap.String("identity", config.Identity))
	hold.OnLost, hold.OnHolder, hold.OnFinish = e.lose, e.observe, e.finish
	hold.OnRenewal, hold.OnFailing = e.renewed, e.failing
	e.lease, e.identity, e.hooks, e.onLost, e.log = hold.Lease, config.Identity, config.Hooks, config.OnLost, hold.Log
	e.events = eventLog{recorder: config.Events, lease: hold.Lease}
	if e.candidate, err = leasehold.New(client, hold); err != nil {
		return nil, fmt.Errorf("leaderelection: %w", err)
	}
	return e, nil
}

// Run waits until this process is the leader, calls lead, and renews the Lease until lead has
// returned. Then it releases the Lease and returns the error of lead.
//
// lead's context ends with ctx or with the leadership, then with an [ErrLost] as its cause. When
// ctx ends, the Lease is kept until lead has returned. If ctx was cancelled and lead's error only
// reports that, Run returns nil. A lead that ends by runtime.Goexit counts as one that returns nil.
//
// A release waits until no guarded request can still take effect ([Elector.WrapTransport]), usually
// until all have been answered, and renews the Lease meanwhile. Then it takes at most four renew
// intervals. If the release fails, or the Lease cannot be renewed, the successor waits until the
// Lease has expired.
//
// If leadership is lost and OnLost returns, Run waits for lead to return, contends again, and calls
// lead again. It does the same if lead has ended because it was asked to before the deadline
// ([Config].StepDown); the cause of its context then matches [ErrSteppedDown]. As a candidate, Run
// fails only if the API server has refused a required request, or the credentials of this process,
// for a whole LeaseDuration. The error names the verb and the Lease.
func (e *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	if lead == nil { // before anything is written
		return errors.New("leaderelection: Run: lead: must not be nil")
	}
	if !e.busy.TryLock() {
		return ErrBusy
	}
	defer e.busy.Unlock()
	defer e.candidate.Contact.End()
	for {
		h := e.continued() // from TryAcquire
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
		err := e.candidate.Run(context.WithValue(ctx, termKey{}, e.term(h)), h, lead)
		if h.SteppedDown() && ctx.Err() == nil {
			e.log.Info("stepped down, contending again")
			continue
		}
		if !h.Term.Lost() {
			e.log.Info("stopped leading", zap.Error(err)) // that of the work, if any
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// TryAcquire tries once to become the leader. If the Lease is not free, it returns a [HeldError]
// that names the leader. A dead leader's Lease must be seen unchanged for its whole duration, so
// TryAcquire succeeds when called again after HeldError.Wait.
//
// An attempt is a read, which takes up to a renew interval, and a write, which takes up to
// LeaseDuration less Margin if it has no answer. TryAcquire, Renew and Release wait up to a renew
// interval for a write that is under way when ctx ends, because an abandoned write could begin an
// unknown term.
//
// The term has begun when TryAcquire returns nil. Continue it with Run, or with Renew and Release.
// Otherwise leadership is lost at the deadline as in Run, and the default OnLost ends the process.
func (e *Elector) TryAcquire(ctx context.Context) (Term, error) {
	if !e.busy.TryLock() {
		return Term{}, ErrBusy
	}
	defer e.busy.Unlock()
	if err := ctx.Err(); err != nil {
		return Term{}, err
	}
	h := e.continued()
	if h == nil {
		var err error
		if h, err = e.candidate.Try(ctx); err != nil {
			return Term{}, fmt.Errorf("leaderelection: %w", err)
		}
		if h == nil {
			holder, wait := e.candidate.Standing()
			return Term{}, &HeldError{Lease: e.lease, Holder: holder, Wait: wait}
		}
		e.begin(h)
	}
	return e.term(h), nil
}

// Renew renews the term that TryAcquire began. It returns nil if the deadline has moved. After an
// error that does not match [ErrLost], the term continues until its deadline.
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

// Release ends the term that TryAcquire began. Its work must have ended. Release waits for guarded
// requests as Run does.
//
// After a loss, Release only reports that the work has ended: it disarms the kernel deadline and
// returns ErrNotLeader.
func (e *Elector) Release(ctx context.Context) error {
	if !e.busy.TryLock() {
		return ErrBusy
	}
	defer e.busy.Unlock()
	if h := e.current(); h != nil {
		return h.Release(ctx)
	}
	if h := e.latest(); h != nil {
		h.Term.DisarmKillTimer()
	}
	return ErrNotLeader
}

// IsLeader reports whether this process is the leader now. Call it before every act and after every
// wait. Without a fence on the server, the answer may still be outdated, because the process can be
// stopped before its next statement.
func (e *Elector) IsLeader() bool { return e.current() != nil }

// Remaining returns how long this process stays the leader if no further renewal succeeds, and 0 if
// it is not the leader.
func (e *Elector) Remaining() time.Duration {
	if h := e.current(); h != nil {
		return h.Term.Remaining()
	}
	return 0
}

// Leader returns the last seen leader's identity, for display. ok is false if the Lease was free or
// has not been seen. The leader may be gone: Leader sends no request.
func (e *Elector) Leader() (identity string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.Holder(), e.seen.Holder() != ""
}

// LeaderAddress returns the last seen leader's Config.Address. Like Leader's result, it may be
// outdated. ok is false without a leader or an address.
func (e *Elector) LeaderAddress() (address string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen.Address(), e.seen.Address() != ""
}

// current returns the holder of the running term, or nil.
func (e *Elector) current() *leasehold.Holder {
	h := e.latest()
	if h == nil || h.Term.Remaining() == 0 {
		return nil
	}
	return h
}

// latest returns the holder of the latest term, even if it is over, or nil.
func (e *Elector) latest() *leasehold.Holder {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder
}

func (e *Elector) term(h *leasehold.Holder) Term {
	first := h.First()
	vacant, released := h.Vacant()
	return Term{
		Identity: e.identity, LeaseUID: first.UID(), Transitions: first.Transitions(),
		Token:  first.ResourceVersion(),
		Vacant: vacant, Released: released,
	}
}

// continued is current for the methods that may begin a term. If the last term's timer is late, it
// ends that term first.
func (e *Elector) continued() *leasehold.Holder {
	h := e.current()
	if last := e.latest(); h == nil && last != nil {
		last.Term.Expire()
	}
	return h
}

func (e *Elector) begin(h *leasehold.Holder) {
	e.log.Info("started leading", zap.Int32("transitions", h.First().Transitions()))
	e.mu.Lock()
	e.holder = h
	e.mu.Unlock()
	e.reportStart(h)
}

func (e *Elector) observe(r lease.Record) {
	holder := r.Holder()
	e.mu.Lock()
	changed := holder != e.seen.Holder()
	e.seen = r
	run := e.newLeader(holder)
	e.mu.Unlock()
	if changed && holder != "" && holder != e.identity {
		e.log.Info("following", zap.String("leader", holder))
	}
	run()
}
