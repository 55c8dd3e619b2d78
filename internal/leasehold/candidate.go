package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Candidate waits until a lease is free and takes it. It sends no requests while it watches a
// record that does not expire. Its methods other than Check exclude each other. It remembers its
// observation between calls.
type Candidate struct {
	Guard   *Guard        // of the lease
	Contact *kube.Contact // of the candidate and its holders

	config      *Config
	health      *health
	running     atomic.Pointer[Holder] // the one that Run is in, or nil
	forget      func()                 // what the supervisor knows of the lease
	store       *Store
	observation lease.Observation
	writes      lease.WriteLog // of the term that it last tried to begin
	prior       lease.Record   // that it last tried to replace by a term
	since       clock.Reading  // when prior was seen first
	stamps      lease.Stamps
	badge       *badge
	client      kubernetes.Interface
	witness     *Witness      // of Wait; nil outside of it
	last        *Holder       // of the latest term
	farLonger   time.Duration // the last duration that was logged because it is so long

	watchRefusedAt clock.Reading // when watching was last forbidden
	watchBackoff   time.Duration // how long to wait from then, before asking again; zero if it is not forbidden
}

// maxWatchBackoff bounds how long a candidate polls after a refused watch before it tries to watch
// again.
const maxWatchBackoff = time.Minute

// newCandidate returns a candidate without an observation.
func newCandidate(client kubernetes.Interface, c Config) *Candidate {
	c.Pod = c.Pod.withDefaults()
	candidate := &Candidate{
		Guard: newGuard(c.Lease, c.NotHeld, c.Guard), Contact: kube.NewContact(c.Clock, c.OnFailing),
		config: &c, health: &health{check: c.Healthy}, store: NewStore(client.CoordinationV1(), c, 3*c.Timing.Duration),
		writes: lease.NewWriteLog(c.Process), client: client,
		badge: &badge{config: &c},
	}
	candidate.observation = lease.NewObservation(c.Timing.Duration, c.TrustForeign, candidate.reclaim)
	return candidate
}

// Run is Run of a holder that this candidate has returned.
func (c *Candidate) Run(ctx context.Context, h *Holder, work func(context.Context) error) error {
	c.running.Store(h)
	err := h.run(ctx, work)
	c.running.Store(nil)
	return err
}

// Check returns an error while the work of a finished term runs, or if all attempts to follow, take or
// renew the lease have failed for MaxFailing.
func (c *Candidate) Check() error {
	if h := c.running.Load(); h != nil {
		if err := h.Expired(); err != nil {
			return err
		}
	}
	if err := c.Contact.Check("requests", c.config.MaxFailing); err != nil {
		return fmt.Errorf("lease %s: %w", c.config.Lease, err)
	}
	return nil
}

// KillTimer returns that of the process, or nil.
func (c *Candidate) KillTimer() KillTimer { return c.config.KillTimer }

// Discard makes the supervisor forget the lease, which this candidate has not held and will not hold.
func (c *Candidate) Discard() { c.forget() }

// reclaim reports whether the holder of a record is known to have ended. For its own last term this
// process decides by itself, because the name of its container proves nothing about its requests.
func (c *Candidate) reclaim(r lease.Record) bool {
	if c.last != nil && r.WrittenBy(c.config.Process) {
		return c.last.vacated
	}
	return c.config.Variant.reclaims(r)
}

// Try reads the record and takes the lease if it is free. Otherwise it returns nil, and Standing
// shows why. A record must have been observed until it expires, so call Try again.
func (c *Candidate) Try(ctx context.Context) (*Holder, error) {
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	h, err := c.take(ctx)
	_, seen := c.observation.TimeToExpiry(c.config.Clock.Now())
	if seen && (isLostRace(err) || errors.Is(err, errOvertaken)) {
		return nil, nil
	}
	return h, err
}

// Standing returns the holder, and how long the record must stay unchanged from now until the lease
// is free. The holder is empty while the end of the last holder's work is not known.
func (c *Candidate) Standing() (holder string, wait time.Duration) {
	wait, _ = c.observation.TimeToExpiry(c.config.Clock.Now())
	return c.observation.Record().Holder(), max(0, wait)
}

// Wait waits until it has taken the lease. It returns the error of ctx when ctx ends, the reason
// why a record is unfit (such as ErrCoordinated), or a *kube.RequestError when RBAC has refused one
// request, or the API server the credentials, for a lease duration.
func (c *Candidate) Wait(ctx context.Context) (*Holder, error) {
	interval := c.config.Timing.RenewInterval()
	pause := backoff(c.config.Timing)
	c.store.refused.Forget()
	asked := false // which rights are missing
	c.witness = NewWitness(ctx, c.client, *c.config)
	defer func() {
		c.witness.Close()
		c.witness = nil
	}()
	for ctx.Err() == nil {
		start := c.config.Clock.Now()
		h, err := c.follow(ctx)
		if ctx.Err() == nil || h != nil {
			c.Contact.Note(err)
		}
		if h != nil {
			return h, nil
		}
		if errors.As(err, new(unfitError)) {
			return nil, err
		}
		if kube.RoleMissing(err) && !asked {
			asked = true
			c.sayMissingRights(ctx)
		}
		// Shorter refusals happen while a deployment's roles are being created, and while an API
		// server starts.
		if c.store.refusedFor(err) >= c.config.Timing.Duration {
			return nil, err
		}
		if c.config.Clock.Now().SinceAtLeast(start) >= interval {
			pause = backoff(c.config.Timing)
		}
		clock.SleepBy(ctx, c.config.Clock, pause.Step())
	}
	return nil, ctx.Err()
}

// follow acts on every version of the record until it has taken the lease. It returns nil when the
// record must be read again: the watch ended, the poll interval is over, or a request failed.
func (c *Candidate) follow(ctx context.Context) (*Holder, error) {
	// Only a read shows that the Lease is absent, and what it is when a shared watch is joined.
	w := c.watch(ctx)
	defer w.Stop()
	events := w.ResultChan()
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	var poll <-chan time.Time
	if events == nil {
		timer := c.config.Clock.NewTimer(c.config.Timing.RenewInterval())
		defer timer.Stop()
		poll = timer.C()
	}
	for {
		// A swap that fails shows that the watch is behind, so the caller opens a new one.
		h, err := c.take(ctx)
		if err != nil {
			kube.LeaveIfSilent(w, c.config.Timing.Duration/2)
		}
		if h != nil || err != nil {
			return h, err
		}
		c.Contact.Note(nil)
		if c.config.OnWait != nil {
			_, wait := c.Standing()
			c.config.OnWait(c.observation.Record(), wait)
		}
		if !c.await(ctx, events, poll) {
			return nil, nil
		}
	}
}

// await returns true when the lease may be free, false when the watch or the poll interval is over.
func (c *Candidate) await(ctx context.Context, events <-chan watch.Event, poll <-chan time.Time) bool {
	wait, _ := c.observation.TimeToExpiry(c.config.Clock.Now())
	free := c.config.Clock.NewTimer(wait)
	defer free.Stop()
	select {
	case <-free.C():
		return true
	case e, ok := <-events:
		return ok && c.receive(e)
	case <-poll:
		return false
	case <-ctx.Done():
		return false
	}
}

// watch opens a watch, or returns one without a channel if that fails or was refused recently.
func (c *Candidate) watch(ctx context.Context) watch.Interface {
	if c.watchBackoff > 0 && c.config.Clock.Now().SinceAtLeast(c.watchRefusedAt) < c.watchBackoff {
		return noWatch{}
	}
	interval := c.config.Timing.RenewInterval()
	w, err := c.store.Watch(ctx, "", interval)
	if err == nil {
		c.watchBackoff = 0
		return w
	}
	if kube.RoleMissing(err) {
		c.watchRefusedAt = c.config.Clock.Now()
		c.watchBackoff = min(max(2*c.watchBackoff, interval), maxWatchBackoff)
	}
	return noWatch{}
}

// noWatch never has an event.
type noWatch struct{}

func (noWatch) ResultChan() <-chan watch.Event { return nil }

func (noWatch) Stop() {}

// receive handles an event. It returns false if the watch is broken.
func (c *Candidate) receive(e watch.Event) bool {
	if e.Type == watch.Error {
		return false
	}
	if r, ok := c.store.recordOf(e); ok {
		if e.Type == watch.Deleted {
			r = lease.Record{}
		}
		c.see(r)
	}
	return true
}

// look reads the record.
func (c *Candidate) look(ctx context.Context) error {
	r, err := c.store.Get(ctx, c.config.Timing.RenewInterval())
	if err == nil {
		c.see(r)
	}
	return err
}

func (c *Candidate) see(r lease.Record) {
	c.observation.Observe(r, c.config.Clock.Now())
	c.config.OnHolder(c.observation.Record()) // the first copy of a version, so that no other one is kept
	if c.witness != nil {
		c.witness.See(c.config.Lease, r)
	}
	c.sayFarLonger(r)
}

// sayFarLonger logs a duration that may be a mistake of a user who has edited the Lease. The
// candidate still waits for it, because a holder may have it.
func (c *Candidate) sayFarLonger(r lease.Record) {
	if d := r.Duration(); d > 10*c.config.Timing.Duration && d != c.farLonger {
		c.farLonger = d
		c.config.Log.Warn("waiting for a far longer lease duration than that of this process",
			zap.String("holder", r.Holder()), zap.Int64("spec.leaseDurationSeconds", int64(d/time.Second)),
			zap.Duration("own", c.config.Timing.Duration))
	}
}

// take begins a term if the lease is free, or if an earlier attempt has begun one. It returns nil
// if the lease is not free, and an error if a write has failed.
func (c *Candidate) take(ctx context.Context) (*Holder, error) {
	r, now := c.observation.Record(), c.config.Clock.Now()
	if err := c.config.Variant.whyUnfit(r); err != nil {
		return nil, unfitError{fmt.Errorf("lease %s: %w", c.config.Lease, err)}
	}
	if h := c.won(r, now); h != nil {
		return h, nil
	}
	switch wait, seen := c.observation.TimeToExpiry(now); {
	case c.writes.Match(r): // too long ago: renew before work begins
		return c.swap(ctx, r.Renewal)
	case seen && wait <= 0:
		c.writes.Forget() // an earlier attempt may still arrive
		c.prior, c.since = r, c.observation.Since()
		return c.swap(ctx, func(stamp metav1.MicroTime) *coordinationv1.Lease {
			l := r.Acquired(c.config.Lease, c.config.Identity, c.config.Timing.Duration, stamp)
			return c.config.Variant.dressed(lease.WithAddress(l, c.config.Address), r, false)
		})
	default:
		return nil, nil
	}
}

// writtenUntil returns what the terms until r have written. If r is of this process' own last term,
// this process knows them itself.
func (c *Candidate) writtenUntil(r lease.Record) handover.Versions {
	if c.last != nil && c.last.vacated && r.SameTerm(c.last.First()) {
		return c.last.written()
	}
	return r.Written()
}

// swap replaces the last seen version by what next makes of it.
func (c *Candidate) swap(ctx context.Context, next func(metav1.MicroTime) *coordinationv1.Lease) (*Holder, error) {
	var h *Holder
	known := false // the outcome
	timing := c.config.Timing
	err := c.store.newSwap(ctx, timing.Duration-timing.Margin, timing.RenewInterval(), false, change{
		next: func() (*coordinationv1.Lease, lease.Record) {
			now := c.config.Clock.Now()
			l := next(c.stamps.Next(now.Wall))
			c.badge.annotate(l, 0)
			c.writes.Record(l, now)
			return l, c.observation.Record()
		},
		learn: func(r lease.Record, asked clock.Reading, wrote bool) (o outcome, err error) {
			if !wrote && r.SameVersion(c.observation.Record()) {
				c.writes.Unstored(asked)
				return unchanged, nil
			}
			known = true
			h, err = c.settle(r, wrote)
			return settled, err
		},
	}).wait(ctx.Done())
	if !known {
		c.observation.Invalidate(isLostRace(err))
	}
	return h, err
}

// settle handles a version other than the one to be replaced.
func (c *Candidate) settle(r lease.Record, wrote bool) (*Holder, error) {
	if !wrote {
		c.observation.Invalidate(true)
		c.see(r)
	}
	switch h := c.won(r, c.config.Clock.Now()); {
	case h != nil:
		c.config.OnHolder(r)
		return h, nil
	case c.writes.Contains(r):
		return nil, fmt.Errorf("write Lease %s: the answer came too late to begin work", c.config.Lease)
	}
	return nil, errOvertaken
}

// won returns the holder of the term that r began, if r is our write and time is left.
func (c *Candidate) won(r lease.Record, now clock.Reading) *Holder {
	if !c.writes.Match(r) || c.config.Timing.Left(c.writes.Sent(), now) <= 0 {
		return nil
	}
	h := c.newHolder()
	if h.succeeds = c.prior.Released(); c.prior.Exists() {
		h.vacant = now.SinceAtLeast(c.since)
	}
	c.last = h
	c.writes = lease.NewWriteLog(c.config.Process)
	c.observation.Observe(r, now) // after a loss, the next term begins only when this record has expired
	return h
}

// errOvertaken means that a takeover has failed because the version to be replaced is gone.
var errOvertaken = errors.New("another process was faster")

// unfitError is the reason why a candidate gives up.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

func isLostRace(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// sayMissingRights logs all rights that are missing, when the first request is refused.
func (c *Candidate) sayMissingRights(ctx context.Context) {
	ctx, cancel := clock.WithTimeout(own(ctx), c.config.Clock, c.config.Timing.RenewInterval())
	defer cancel()
	lease := c.config.Lease
	rights := kube.RightsOn(leases, lease.Namespace, lease.Name, "create", "get", "update", "watch")
	if c.config.Pod.UID != "" {
		rights = append(rights, kube.RightsOn(corev1.Resource("pods"), lease.Namespace, "", "watch")...)
	}
	if c.config.Events {
		rights = append(rights, kube.EventRights(lease.Namespace)...)
	}
	kube.SayMissingRights(ctx, c.client, rights, c.config.Log)
}
