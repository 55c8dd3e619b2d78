package endpoints

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/probe"
)

// Reconciler keeps this instance published behind a Service while it lives, and removes others that do not.
type Reconciler struct {
	config    Config
	endpoints []Endpoint // the own ones
	store     store
	publisher publisher
	client    kubernetes.Interface

	running sync.Mutex // held by Run, ReconcileOnce and Withdraw; guards what follows

	incarnation incarnation
	ready       probe.Probe
	expiry      expiry
	settings    settings
	entered     bool          // this process has written its entries
	unsettled   bool          // entries under the own keys may be left of an earlier process, or of an unanswered write of this one
	unpublished bool          // this process has withdrawn entries, and not what is published
	serviceUID  types.UID
	said        map[string]string // the last that was said about a subject
	malformed   map[string]string // mark, by key
}

// New returns a reconciler. It sends no request. The error joins one error for every rule that config breaks.
func New(client kubernetes.Interface, config Config) (*Reconciler, error) {
	if client == nil {
		return nil, errors.New("endpoints: client: must not be nil")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	return &Reconciler{
		config: config, client: client, endpoints: config.endpoints(), store: config.Store.open(client, config),
		incarnation: newIncarnation(config),
		publisher:   publisher{client: client, service: config.service(), legacy: config.PublishEndpoints},
		expiry:      expiry{interval: config.Interval},
		settings:    settings{expireAfter: config.ExpireAfter, maxInterval: config.Interval, interval: config.Interval},
		unsettled: true, said: map[string]string{}, malformed: map[string]string{},
	}, nil
}

const (
	// attempts is how often a round decides anew after a conflict.
	attempts = 5
	// conflictPause is the longest wait before the second attempt; it grows with each.
	conflictPause = 50 * time.Millisecond
	// firstRetry is the wait after a round that has failed; it doubles with each.
	firstRetry = time.Second
	// jitter is by which part intervals differ, so that instances which have started together do not write together for ever.
	jitter = 0.05
)

// Run registers and publishes this instance until ctx ends, then withdraws it. It returns nil when that has succeeded, otherwise an error that says
// what is left. A round that fails is tried again soon. Only [ErrSelector] ends Run early, and only before this instance is registered.
func (r *Reconciler) Run(ctx context.Context) error {
	if !r.running.TryLock() {
		return ErrBusy
	}
	defer r.running.Unlock()
	defer r.incarnation.yield()
	failures := 0
	for ctx.Err() == nil {
		begin := r.config.Clock.Now()
		// A heartbeat that is under way when ctx ends is not given up: its late arrival would come after the withdrawal.
		err, _ := r.reconcile(context.WithoutCancel(ctx))
		if errors.Is(err, ErrSelector) && !r.entered {
			return err
		}
		now := r.config.Clock.Now()
		wait := time.Duration(float64(r.settings.interval)*(1+jitter*(2*rand.Float64()-1))) - now.SinceAtLeast(begin)
		if err == nil {
			failures = 0
		} else {
			wait = min(wait, firstRetry<<min(failures, 10))
			failures++
		}
		r.sleep(ctx, wait)
	}
	bounded, cancel := clock.WithTimeout(context.WithoutCancel(ctx), r.config.Clock, r.config.WithdrawTimeout)
	defer cancel()
	return r.withdraw(bounded)
}

// sleep waits, or until ctx ends.
func (r *Reconciler) sleep(ctx context.Context, d time.Duration) {
	timer := r.config.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

// ReconcileOnce does one round: for programs with a loop of their own, which should call it every [Config].Interval, and three times in what
// [Config].Settings says if that is shorter: an instance that comes less often takes nobody for dead. It returns what the round could not do; what it
// could, it has done. [ErrNotReady] says that the instance is withdrawn.
func (r *Reconciler) ReconcileOnce(ctx context.Context) error {
	if !r.running.TryLock() {
		return ErrBusy
	}
	defer r.running.Unlock()
	return errors.Join(r.reconcile(ctx))
}

// Withdraw removes this instance from the store and from what is published, and nothing else; if it is the last one, nothing is published then. It
// tries until ctx ends. Run does so by itself.
func (r *Reconciler) Withdraw(ctx context.Context) error {
	if !r.running.TryLock() {
		return ErrBusy
	}
	defer r.running.Unlock()
	defer r.incarnation.yield()
	return r.withdraw(ctx)
}

func (r *Reconciler) withdraw(ctx context.Context) error {
	for {
		err := r.attempt(ctx)
		if err == nil || errors.Is(err, ErrSelector) { // which is that of a round that has done all that it could
			return nil
		}
		if ctx.Err() == nil {
			r.sleep(ctx, firstRetry/4)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("endpoints: not withdrawn from Service %v: %w", r.config.service(), err)
		}
	}
}

// attempt is a round that withdraws this instance. It is bounded, or an answer that does not come
// would be waited for until ctx ends.
func (r *Reconciler) attempt(ctx context.Context) error {
	ctx, cancel := clock.WithTimeout(ctx, r.config.Clock, r.timeout())
	defer cancel()
	return r.round(ctx, true)
}

const (
	// minTimeout is how long a round may take at least.
	minTimeout = 4 * time.Second
	// shares is into how many parts the time for a round is divided. What a heartbeat does not depend on gets one of them, or an answer that does
	// not come would cost the heartbeat.
	shares = 4
)

// reconcile is one round of an instance that is to be published if it is ready. What the round itself could not do is err; rest is about readiness
// and settings, which another round soon would not change.
func (r *Reconciler) reconcile(ctx context.Context) (err, rest error) {
	ctx, cancel := clock.WithTimeout(ctx, r.config.Clock, r.timeout())
	defer cancel()
	noSetting := r.readSettings(ctx)
	r.settings.startRound()
	r.tell("settings", noSetting, "settings are good again", "the last good expire-duration stays")
	unready := r.checkReady(ctx)
	r.tell("readiness", unready, "ready", "withdrawing this instance")
	return r.round(ctx, unready != nil), errors.Join(unready, noSetting)
}

// timeout is that of a round.
func (r *Reconciler) timeout() time.Duration { return max(minTimeout, r.settings.interval) }

// share returns a context for something that a heartbeat does not depend on.
func (r *Reconciler) share(ctx context.Context) (context.Context, context.CancelFunc) {
	return clock.WithTimeout(ctx, r.config.Clock, r.timeout()/shares)
}

// checkReady asks whether clients may be sent here. An answer that does not come is a no: clients
// would wait for a server that hangs.
func (r *Reconciler) checkReady(ctx context.Context) error {
	if err := r.ready.Ask(ctx, r.config.Clock, r.timeout()/shares, r.config.Ready); err != nil {
		return fmt.Errorf("endpoints: %w: %w", ErrNotReady, err)
	}
	return nil
}

// round does its work, and again if something has changed meanwhile.
func (r *Reconciler) round(ctx context.Context, leaving bool) error {
	begin := r.config.Clock.Now()
	r.incarnation.claim(r.config.Logger)
	p := pass{Reconciler: r, leaving: leaving}
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			r.sleep(ctx, rand.N(time.Duration(attempt)*conflictPause))
		}
		if err = p.run(ctx); !errors.Is(err, errConflict) || ctx.Err() != nil {
			break
		}
	}
	r.tell("round", err, "what failed before has succeeded", "not all of a round could be done")
	if r.config.Hooks.OnRound != nil {
		p.result.Took, p.result.Err = r.config.Clock.Now().SinceAtLeast(begin), err
		r.config.Hooks.OnRound(p.result)
	}
	return err
}
