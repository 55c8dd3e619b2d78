package leaderforlife

import (
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
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
