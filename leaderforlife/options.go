package leaderforlife

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// Option configures [Become]. All candidates for one lock need the same namespace,
// [WithLease] and [WithObservedPodEnd].
type Option func(*config)

// WithClient sets the client. Default: a client made from [WithConfig] without a rate limit.
// client-go's default of QPS 5 would delay a succession by seconds.
func WithClient(client kubernetes.Interface) Option { return func(c *config) { c.client = client } }

// WithConfig sets the configuration of the client. It is copied. Default: rest.InClusterConfig.
func WithConfig(clientConfig *rest.Config) Option { return func(c *config) { c.rest = clientConfig } }

// WithNamespace sets the namespace of both the lock and this process' Pod, because an owner must be
// in the namespace of what it owns. Default: the environment variable POD_NAMESPACE, or the
// namespace of the mounted service account token.
func WithNamespace(namespace string) Option { return func(c *config) { c.namespace = namespace } }

// WithPodName sets the name of this process' Pod. Default: the Pod that the client's token is bound
// to (by a SelfSubjectReview); else the environment variable POD_NAME; else the hostname.
func WithPodName(name string) Option { return func(c *config) { c.podName = name } }

// WithPollInterval sets how often a candidate reads if it cannot watch or has a [Fence]. At least
// 100 ms; default: 5 s.
func WithPollInterval(d time.Duration) Option { return func(c *config) { c.pollInterval = d } }

// WithLease uses a Lease as the lock instead of a ConfigMap. It has the label
// bellwether.dev/lock=life and never expires. Electors of package leaderelection refuse it.
func WithLease() Option { return func(c *config) { c.lease = true } }

// WithNodeCheck lets a candidate succeed a leader whose node is gone, or is not Ready and has the
// taint node.kubernetes.io/out-of-service. It needs the verb get on nodes, and watch to avoid
// polling.
func WithNodeCheck() Option { return func(c *config) { c.nodes = true } }

// WithFence lets a candidate succeed a leader that fence reports to have ended. fence is asked in
// each poll interval, after a new read of the cluster.
func WithFence(fence Fence) Option { return func(c *config) { c.fence = fence } }

// WithObservedPodEnd makes a candidate wait until it has seen the leader's Pod end. The deletion of
// the Pod then does not prove its end, because a force deletion can remove a Pod whose process
// still runs.
//
// The garbage collector finds no owner of the lock, so the lock stays until a candidate has seen
// the end of the Pod, or a person who knows of that end deletes it. At least one candidate must be
// watching when a leader ends, and must be allowed to delete the lock.
func WithObservedPodEnd() Option { return func(c *config) { c.observedEnd = true } }

// WithLogger sets the logger for transitions at Info and for problems at Warn, once each. Failures that
// last are logged again every 10 minutes. Default: no logs.
func WithLogger(log *zap.Logger) Option { return func(c *config) { c.log = log } }

// WithHooks sets functions to call when something happens.
func WithHooks(hooks Hooks) Option { return func(c *config) { c.hooks = hooks } }

// config is the result of all options.
type config struct {
	lock                      string
	client                    kubernetes.Interface
	rest                      *rest.Config
	namespace, podName        string
	pollInterval              time.Duration
	lease, nodes, observedEnd bool
	fence                     Fence
	log                       *zap.Logger
	hooks                     Hooks

	processLock func(name string) (release func(), err error) // see [process.Lock]
}

// Hooks are functions that Become calls when something happens. Each may be nil. Calls
// are synchronous, one at a time, and delay Become.
type Hooks struct {
	// OnWaiting is called with the reasons for waiting, when waiting starts and whenever they
	// change.
	OnWaiting func([]Waiting)

	// OnLeading is called with the UID of the lock, right before Become reports that
	// this Pod leads.
	OnLeading func(lock types.UID)

	// OnFailing is called while the API server does not answer a candidate as it should: after each
	// failed attempt with the time since the first one and the error, and with 0 and nil once an
	// attempt has succeeded or Become returns.
	OnFailing func(lasted time.Duration, err error)
}

// Waiting is one reason why a candidate does not lead.
type Waiting struct {
	// Pod and UID identify the Pod to wait for, usually the leader. Node is where it runs, empty if
	// unknown.
	Pod  string
	UID  types.UID
	Node string
	// Why explains the reason to a person.
	Why string
}

// Fence reports what became of machines that do not answer, as a fencing controller can.
type Fence interface {
	// Ended reports whether it is proven that no process of a Pod runs or will run, for example
	// because its machine was switched off after the Pod had started. A node that is not Ready or
	// does not answer proves nothing.
	//
	// pod is the Pod as last seen; do not change it. An error counts as no, and so does an answer
	// that takes longer than 10 s, when ctx ends. Calls do not overlap.
	Ended(ctx context.Context, pod *corev1.Pod) (bool, error)
}

// namespaceFile contains the Pod's namespace. The kubelet mounts it.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// minPollInterval is the lower bound of WithPollInterval.
const minPollInterval = 100 * time.Millisecond

// newConfig applies options and defaults. The error joins one error for each broken rule.
func newConfig(lock string, options []Option) (config, error) {
	c := config{lock: lock, pollInterval: 5 * time.Second, processLock: process.Lock}
	for _, option := range options {
		option(&c)
	}
	review := kube.Review{Package: "leaderforlife"}
	review.Value("lockName", c.lock, append(validation.IsDNS1123Subdomain(c.lock), tooLong(c.lock)...))
	if c.podName != "" {
		review.Value("WithPodName", c.podName, validation.IsDNS1123Subdomain(c.podName))
	}
	if c.pollInterval < minPollInterval {
		review.Add(fmt.Errorf("WithPollInterval: must be at least %v (got %v)", minPollInterval, c.pollInterval))
	}
	noNamespace := c.findNamespace()
	if noNamespace == nil {
		review.Value("WithNamespace", c.namespace, validation.IsDNS1123Label(c.namespace))
	}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	c.log = c.log.With(zap.String("lock", c.namespace+"/"+c.lock))
	return c, errors.Join(review.Err(), noNamespace, c.connect())
}

// tooLong checks the length of the lock's name, which becomes part of a label key.
func tooLong(lock string) []string {
	if len(lock) > validation.LabelValueMaxLength {
		return []string{validation.MaxLenError(validation.LabelValueMaxLength)}
	}
	return nil
}

// findNamespace sets the namespace from the environment or the kubelet's file.
func (c *config) findNamespace() error {
	if c.namespace == "" {
		c.namespace = os.Getenv("POD_NAMESPACE")
	}
	if c.namespace == "" {
		if content, err := os.ReadFile(namespaceFile); err == nil {
			c.namespace = strings.TrimSpace(string(content))
		}
	}
	if c.namespace == "" {
		return ErrNoNamespace
	}
	return nil
}

// connect creates a client unless one is set.
func (c *config) connect() error {
	if c.client != nil {
		return nil
	}
	var err error
	if c.rest == nil {
		if c.rest, err = rest.InClusterConfig(); err != nil {
			return fmt.Errorf("leaderforlife: no client: %w: outside of a Pod, set it by WithConfig or WithClient", err)
		}
	}
	own := rest.CopyConfig(c.rest)
	// A candidate limits its own rate. client-go's default would delay a succession by seconds.
	own.RateLimiter, own.QPS, own.Burst = nil, -1, 0
	if c.client, err = kubernetes.NewForConfig(own); err != nil {
		return fmt.Errorf("leaderforlife: WithConfig: make a client: %w", err)
	}
	return nil
}
