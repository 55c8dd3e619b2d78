package endpoints

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

var (
	// ErrSelector is returned for a Service with a selector, because Kubernetes publishes the Pods that
	// it selects. Nothing is written, but instances that registered before still withdraw when they end.
	ErrSelector = errors.New("endpoints: the Service has a selector, so Kubernetes publishes its endpoints")

	// ErrNoService is returned by a round if the Service does not exist. The instance registers
	// anyway and is published once the Service exists.
	ErrNoService = errors.New("endpoints: the Service does not exist")

	// ErrForeign is returned if an object that has one of our names is not marked as ours. It is left alone.
	ErrForeign = errors.New("endpoints: an object with this name is managed by another controller")

	// ErrFull is returned if the store has no room for this instance's entry. Instances in the
	// store can still refresh theirs.
	ErrFull = errors.New("endpoints: the store is full")

	// ErrNotReady is returned by a round if [Config].Ready returned an error, which it wraps. The
	// instance is withdrawn.
	ErrNotReady = errors.New("endpoints: not ready")

	// ErrBusy is returned by a method of a [Reconciler] while another one is running.
	ErrBusy = errors.New("endpoints: Run, ReconcileOnce or Withdraw of this reconciler is already running")
)

// Reconciler publishes this instance behind a Service while it lives, and removes expired
// instances.
type Reconciler struct {
	config    Config
	store     store
	publisher publisher
	client    kubernetes.Interface
	// connection is that of client.
	connection *kube.Connection

	running sync.Mutex // held by Run, ReconcileOnce and Withdraw; guards the fields below

	incarnation incarnation
	ready       clock.Probe
	expiry      expiry
	born        time.Time // creation timestamp that this process has written; zero before
	mayBeStale  bool      // an earlier process or an unanswered write may have left entries under our keys
	unpublished bool      // this process has withdrawn its entries, but not yet its endpoints
	serviceUID  types.UID
	rightsAsked bool // which rights are missing
	failures    *kube.Failures
	contact     *kube.Contact     // of rounds
	malformed   map[string]string // mark, by key
}

// New returns a reconciler. It sends no request. The error joins one error for each rule that
// config breaks.
func New(client kubernetes.Interface, config Config) (*Reconciler, error) {
	if client == nil {
		return nil, errors.New("endpoints: client: must not be nil")
	}
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	warnOfRateLimit(client, config.Logger)
	store, keys := config.Store.open(client, config)
	return &Reconciler{
		config: config, client: client, store: store,
		connection:  kube.NewConnection(client.CoreV1().RESTClient()),
		incarnation: newIncarnation(config),
		publisher:   publisher{client: client, service: config.service(), legacy: config.PublishEndpoints},
		expiry: expiry{
			keys: keys, endpoints: config.endpoints(),
			maxInterval: config.Interval, interval: config.Interval, expireAfter: config.ExpireAfter,
		},
		mayBeStale: true, failures: kube.NewFailures(config.Logger, config.clock),
		contact: kube.NewContact(config.clock, nil), malformed: map[string]string{},
	}, nil
}

const (
	// attempts is how often a round runs again after a conflict.
	attempts = 5
	// conflictPause bounds the pause before the second attempt. It grows linearly.
	conflictPause = 50 * time.Millisecond
	// firstRetry is the wait after a failed round, and doubles each time.
	firstRetry = time.Second
	// jitter is the fraction by which intervals vary, so that instances that started together do
	// not keep writing together.
	jitter = 0.05
)

// Run registers and publishes this instance until ctx ends, then withdraws it. It returns nil if
// the withdrawal succeeded, otherwise an error that states what is left. Run soon retries a failed
// round, and ends early only with [ErrSelector] while this instance is not registered.
func (r *Reconciler) Run(ctx context.Context) error {
	if !r.running.TryLock() {
		return ErrBusy
	}
	defer r.running.Unlock()
	defer r.incarnation.yield()
	failures := 0
	for ctx.Err() == nil {
		begin := r.config.clock.Now()
		// Let a heartbeat in flight finish: its late arrival would come after the withdrawal.
		err, _ := r.reconcile(context.WithoutCancel(ctx))
		if errors.Is(err, ErrSelector) && !r.registered() {
			return err
		}
		now := r.config.clock.Now()
		wait := time.Duration(float64(r.expiry.interval)*(1+jitter*(2*rand.Float64()-1))) - now.SinceAtLeast(begin)
		if err == nil {
			failures = 0
		} else {
			wait = min(wait, firstRetry<<min(failures, 10))
			failures++
		}
		clock.SleepBy(ctx, r.config.clock, wait)
	}
	bounded, cancel := clock.WithTimeout(context.WithoutCancel(ctx), r.config.clock, r.config.WithdrawTimeout)
	defer cancel()
	return r.withdraw(bounded)
}

// registered reports whether this process has written its entries.
func (r *Reconciler) registered() bool { return !r.born.IsZero() }

// ReconcileOnce runs one round, for programs with their own loop. Call it every [Config].Interval,
// or three times in the time that [Config].Settings sets, if that is shorter. An instance that
// calls it less often never considers another one expired. The error reports what the round could
// not do; the rest is done. [ErrNotReady] means that the instance is withdrawn.
func (r *Reconciler) ReconcileOnce(ctx context.Context) error {
	if !r.running.TryLock() {
		return ErrBusy
	}
	defer r.running.Unlock()
	return errors.Join(r.reconcile(ctx))
}

// Withdraw removes this instance, and nothing else, from the store and from what is published. After
// the last instance, nothing is published. It retries until ctx ends. Run withdraws by itself.
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
		err := r.withdrawOnce(ctx)
		if err == nil || errors.Is(err, ErrSelector) { // ErrSelector: the round did all that it could
			return nil
		}
		if ctx.Err() == nil {
			clock.SleepBy(ctx, r.config.clock, firstRetry/4)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("endpoints: not withdrawn from Service %v: %w", r.config.service(), err)
		}
	}
}

// withdrawOnce runs a bounded round that withdraws this instance. Without the bound, a missing
// answer would use up all the time until ctx ends.
func (r *Reconciler) withdrawOnce(ctx context.Context) error {
	bound := min(r.timeout(), max(minTimeout, r.config.WithdrawTimeout/2))
	ctx, cancel := r.within(ctx, bound)
	defer cancel()
	return r.round(ctx, true)
}

const (
	// minTimeout is the least time for a round.
	minTimeout = 4 * time.Second
	// shares is the number of parts that a round's time is divided into. Requests that a heartbeat
	// does not depend on get one part, so that a missing answer does not delay the heartbeat for
	// long.
	shares = 4
)

// reconcile runs one round of an instance that is published if it is ready. err is what the round
// could not do. rest concerns readiness and settings, which an early retry would not change.
func (r *Reconciler) reconcile(ctx context.Context) (err, rest error) {
	ctx, cancel := r.within(ctx, r.timeout())
	defer cancel()
	noSetting := r.readSettings(ctx)
	r.expiry.pace()
	r.failures.Note("settings", noSetting, "cannot use the settings, keeping the last expire-duration",
		"settings can be used again")
	unready := r.checkReady(ctx)
	r.failures.Note("readiness", unready, "withdrawing this instance", "ready")
	return r.round(ctx, unready != nil), errors.Join(unready, noSetting)
}

// timeout bounds a round.
func (r *Reconciler) timeout() time.Duration { return max(minTimeout, r.expiry.interval) }

// share bounds requests that a heartbeat does not depend on.
func (r *Reconciler) share(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.within(ctx, r.timeout()/shares)
}

// within bounds requests. If an earlier request had no answer, they use another connection.
func (r *Reconciler) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	r.connection.LeaveIfSilent(ctx)
	return clock.WithTimeout(r.connection.Observe(ctx), r.config.clock, d)
}

// checkReady asks whether clients may be sent here. No answer means no, because the server may hang.
func (r *Reconciler) checkReady(ctx context.Context) error {
	if err := r.ready.Ask(ctx, r.config.clock, r.timeout()/shares, r.config.Ready); err != nil {
		return fmt.Errorf("endpoints: %w: %w", ErrNotReady, err)
	}
	return nil
}

// round runs a pass, and runs it again after a conflict.
func (r *Reconciler) round(ctx context.Context, leaving bool) error {
	begin := r.config.clock.Now()
	r.incarnation.claim(r.config.Logger)
	p := pass{reconciler: r, leaving: leaving}
	var err error
	for attempt := range attempts {
		if attempt > 0 {
			clock.SleepBy(ctx, r.config.clock, rand.N(time.Duration(attempt)*conflictPause))
		}
		if err = p.run(ctx); !errors.Is(err, errConflict) || ctx.Err() != nil {
			break
		}
	}
	r.failures.Note("round", err, "round failed in part, retrying", "round succeeded again")
	r.contact.Note(err)
	if kube.RoleMissing(err) && !r.rightsAsked {
		r.rightsAsked = true
		asking, cancel := r.share(ctx)
		kube.SayMissingRights(asking, r.client, r.config.rights(), r.config.Logger)
		cancel()
	}
	p.result.Withdrawing, p.result.Took, p.result.Err = leaving, r.config.clock.Now().SinceAtLeast(begin), err
	call(r.config.Hooks.OnRound, p.result)
	return err
}

// readSettings updates the expiry from the run-time setting. The error is why the last good value stays.
func (r *Reconciler) readSettings(ctx context.Context) error {
	if r.config.Settings == "" {
		return nil
	}
	ctx, cancel := r.share(ctx)
	defer cancel()
	at := types.NamespacedName{Namespace: r.config.Namespace, Name: r.config.Settings}
	m, err := r.client.CoreV1().ConfigMaps(r.config.Namespace).Get(ctx, r.config.Settings, metav1.GetOptions{})
	if err = kube.Named(m, r.config.Settings, err); err != nil {
		return configMapKind.failed(ctx, "get", at, err)
	}
	d, err := parseSetting(m.Data)
	if err != nil {
		return fmt.Errorf("endpoints: ConfigMap %v: %w", at, err)
	}
	if d != r.expiry.expireAfter {
		r.expiry.expireAfter = d
		r.config.Logger.Info("expiry changed", zap.Duration("expire-duration", d))
		call(r.config.Hooks.OnExpireAfter, d)
	}
	return nil
}

// Check is a health check with the signature of controller-runtime's healthz.Checker. It returns at once
// without sending a request, and ignores its argument.
//
// It returns an error if rounds have failed for [Config].MaxFailing, and nil if that is not set. A round
// that withdraws this instance because it is not ready does not count as failed.
func (r *Reconciler) Check(*http.Request) error {
	if err := r.contact.Check("rounds", r.config.MaxFailing); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	return nil
}
