package leaderforlife

import (
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Option changes what [Become] and [TryBecome] do by default. All replicas that contend for one lock need the same WithLease and
// WithStrict, and the same namespace.
type Option func(*config)

// WithClient sets the client. Default: one made from the in-cluster configuration, or from [WithConfig], without a rate limit: that of
// client-go (QPS 5) would make a succession take seconds.
func WithClient(client kubernetes.Interface) Option { return func(c *config) { c.client = client } }

// WithConfig sets what the client is made from; it is copied. Default: rest.InClusterConfig.
func WithConfig(clientConfig *rest.Config) Option { return func(c *config) { c.rest = clientConfig } }

// WithNamespace sets the namespace of the lock and of this process' Pod, which have to be the same: owners and what they own are. Default:
// the environment variable POD_NAMESPACE, or the namespace of the service account token that the kubelet mounts.
func WithNamespace(namespace string) Option { return func(c *config) { c.namespace = namespace } }

// WithPodName sets the name of this process' Pod. Default: the Pod that the client's token is bound to, which the API server tells
// (SelfSubjectReview); else the environment variable POD_NAME; else the hostname.
func WithPodName(name string) Option { return func(c *config) { c.podName = name } }

// WithPollInterval sets how often a candidate looks that cannot watch, or that has to ask a [Fence]. At least 100 ms; default: 5 s.
func WithPollInterval(d time.Duration) Option { return func(c *config) { c.pollInterval = d } }

// WithMaxBackoff sets how long at most to wait after a request that failed before the next one. The wait begins with 100 ms and
// doubles. At least 100 ms; default: 15 s.
func WithMaxBackoff(d time.Duration) Option { return func(c *config) { c.maxBackoff = d } }

// WithLease uses a Lease of the lock's name instead of a ConfigMap. It has the label bellwether.dev/lock=life, never expires, and is
// no Lease that package leaderelection would take.
func WithLease() Option { return func(c *config) { c.lease = true } }

// WithoutWatch has a candidate poll instead of watching.
func WithoutWatch() Option { return func(c *config) { c.withoutWatch = true } }

// WithNodeCheck lets a candidate succeed a leader whose node is gone, or is not Ready and has the taint
// node.kubernetes.io/out-of-service. It needs the verb get on nodes, and watch if it is not to poll.
func WithNodeCheck() Option { return func(c *config) { c.nodes = true } }

// WithFence lets a candidate succeed a leader of which fence says that it has ended. It is asked every poll interval, in which the
// situation is read anew.
func WithFence(fence Fence) Option { return func(c *config) { c.fence = fence } }

// WithStrict does not let a candidate succeed a leader whose Pod was deleted before it was seen to end: whoever deletes a Pod by force says
// that its process has ended, and may be wrong. The lock then has no owner that the garbage collector knows, and stays until a
// candidate has seen the end of the Pod, or somebody deletes the lock by hand who knows it. So at least one candidate has to be watching
// when a leader ends, and has to be allowed to delete the lock.
func WithStrict() Option { return func(c *config) { c.strict = true } }

// WithLogger sets where transitions go at Info, and what is missing or in the way at Warn, once each. Default: nowhere.
func WithLogger(log *zap.Logger) Option { return func(c *config) { c.log = log } }

// WithHooks sets functions to call when something happens.
func WithHooks(hooks Hooks) Option { return func(c *config) { c.hooks = hooks } }

// config is what options set.
type config struct {
	lock                string
	client              kubernetes.Interface
	rest                *rest.Config
	namespace, podName  string
	pollInterval        time.Duration
	maxBackoff          time.Duration
	lease, withoutWatch bool
	nodes, strict       bool
	fence               Fence
	log                 *zap.Logger
	hooks               Hooks

	processLock func(name string) (release func(), err error) // see [process.Lock]
}
