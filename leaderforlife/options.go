package leaderforlife

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
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
func WithoutWatch() Option { return func(c *config) { c.blind = true } }

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
	lock               string
	client             kubernetes.Interface
	rest               *rest.Config
	namespace, podName string
	pollInterval       time.Duration
	maxBackoff         time.Duration
	lease, blind       bool
	nodes, strict      bool
	fence              Fence
	log                *zap.Logger
	hooks              Hooks

	occupy func(name string) (release func(), err error) // see [process.Lock]
}

// namespaceFile is where the kubelet says in which namespace a Pod is.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// leastPause is the shortest of all pauses that can be configured.
const leastPause = 100 * time.Millisecond

// newConfig applies options, sets defaults and returns all rules that are broken.
func newConfig(lock string, options []Option) (config, error) {
	c := config{lock: lock, pollInterval: 5 * time.Second, maxBackoff: 15 * time.Second, occupy: process.Lock}
	for _, option := range options {
		option(&c)
	}
	review := lease.Review{Package: "leaderforlife"}
	review.Value("lockName", c.lock, append(validation.IsDNS1123Subdomain(c.lock), tooLong(c.lock)...))
	if c.podName != "" {
		review.Value("WithPodName", c.podName, validation.IsDNS1123Subdomain(c.podName))
	}
	for field, d := range map[string]time.Duration{"WithPollInterval": c.pollInterval, "WithMaxBackoff": c.maxBackoff} {
		if d < leastPause {
			review.Add(fmt.Errorf("%s: must be at least %v (got %v)", field, leastPause, d))
		}
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

// tooLong is about the label that has the lock's name in its key.
func tooLong(lock string) []string {
	if len(lock) > validation.LabelValueMaxLength {
		return []string{validation.MaxLenError(validation.LabelValueMaxLength)}
	}
	return nil
}

// findNamespace looks for the namespace where Kubernetes says it.
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

// connect makes the client, if there is none yet.
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
	own.RateLimiter, own.QPS, own.Burst = nil, -1, 0 // a candidate paces itself; client-go's default would hold up a succession for seconds
	if c.client, err = kubernetes.NewForConfig(own); err != nil {
		return fmt.Errorf("leaderforlife: WithConfig: make a client: %w", err)
	}
	return nil
}
