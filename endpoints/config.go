package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Config configures a [Reconciler]. All instances of a Service must have the same Namespace,
// Service, Store and Settings. They should have the same Interval, ExpireAfter and
// PublishEndpoints.
type Config struct {
	// Namespace and Service name the Service that this instance is behind. Required. The Service
	// must have no selector.
	Namespace, Service string

	// Addresses are those under which clients reach this instance: at least one, IPv4 or IPv6,
	// without a zone, neither loopback nor link-local. All ports are served on each of them. IPv4
	// addresses mapped to IPv6 are unmapped. If an address changes, end Run, which withdraws the
	// old one, and run a new Reconciler.
	Addresses []netip.Addr

	// Ports are those that this instance serves: at least one, with different names. An address and
	// a port belong to one instance at a time, so instances on one address need different ports.
	Ports []Port

	// PodUID is the UID of this Pod, for example from the downward API. With it, on Linux, a
	// process that was restarted with other Ports or Addresses immediately removes the entries of
	// the process before it. Without it they stay until they expire. No process on another machine
	// or in another network namespace may have the same value. Optional.
	PodUID string

	// Store is where the instances register: a [ConfigMapStore] or a [LeaseStore]. Default:
	// ConfigMapStore{}.
	Store Store

	// Interval is the time between two rounds, and so between two heartbeats. It is at least 1 s,
	// and shorter than configured while Settings sets less than three Intervals. Default: 10 s.
	Interval time.Duration

	// ExpireAfter is how long an instance must go without a heartbeat before the others remove it.
	// At least three Intervals. Default: 1 min.
	ExpireAfter time.Duration

	// Settings names a ConfigMap in Namespace whose key expire-duration, a Go duration of at least
	// 3 s, replaces ExpireAfter. It is read in each round. While it is missing, invalid or
	// unreadable, the last good value stays in force. Optional.
	Settings string

	// Ready reports whether clients may be sent here. It is called before each heartbeat. While it
	// returns an error this instance is withdrawn. After a quarter of an Interval, or 1 s if that
	// is longer, its context ends and this instance is withdrawn, whether Ready returns or not.
	// Calls do not overlap, because the next one waits until the last one has returned. Ready runs
	// in its own goroutine. If nil, the instance is always ready.
	Ready func(ctx context.Context) error

	// PublishEndpoints also maintains an Endpoints object, for clients that do not support
	// EndpointSlices. The API server sends a warning with each request for that deprecated kind,
	// which a client with rest.Config.WarningHandler = rest.NoWarnings{} does not log.
	PublishEndpoints bool

	// WithdrawTimeout bounds how long Run takes to withdraw this instance after its context has
	// ended. Default: 10 s.
	WithdrawTimeout time.Duration

	// MaxFailing is how long rounds may fail until [Reconciler.Check] returns an error, for example because
	// credentials have expired. At least ExpireAfter. During an outage of the API server, a liveness probe
	// with it ends a server that its clients can reach and that the others keep published. So set it longer
	// than such outages, or use the check for readiness or alerts. Default: 0, with which Check returns nil.
	MaxFailing time.Duration

	// Hooks are called when something happens, for metrics and tests.
	Hooks Hooks

	// Events records Kubernetes Events about the Service, for example when an instance expires. The
	// managers of controller-runtime return such a recorder too; NewEventRecorderAdapter of
	// k8s.io/client-go/tools/record converts an older one. It must not block, because heartbeats
	// and the end of Run wait for it. Optional.
	Events events.EventRecorder

	// Logger logs changes at Info. It logs problems at Warn: each reason once, and again every 10 minutes
	// with how long the problem has lasted. Optional.
	Logger *zap.Logger

	clock clock.Clock // simulations replace the system's
}

const (
	defaultInterval        = 10 * time.Second
	defaultExpireAfter     = time.Minute
	defaultWithdrawTimeout = 10 * time.Second

	minInterval = time.Second
	// heartbeats is how many an instance misses at least before it expires.
	heartbeats = 3
)

// withDefaults returns a copy of c that sets zero fields and shares no slices with the caller.
func (c Config) withDefaults() Config {
	c.Addresses, c.Ports = slices.Clone(c.Addresses), slices.Clone(c.Ports)
	for i, a := range c.Addresses {
		if a.Zone() == "" { // Unmap would drop the zone, which validate refuses
			c.Addresses[i] = a.Unmap()
		}
	}
	slices.SortFunc(c.Addresses, netip.Addr.Compare)
	for i, p := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
	}
	slices.SortFunc(c.Ports, Port.compare)
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	c.ExpireAfter = cmp.Or(c.ExpireAfter, defaultExpireAfter)
	c.WithdrawTimeout = cmp.Or(c.WithdrawTimeout, defaultWithdrawTimeout)
	if c.Store == nil {
		c.Store = ConfigMapStore{}
	}
	c.Store = c.Store.withDefaults(c)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.clock == nil {
		c.clock = clock.System()
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	return c
}

// validate returns one error for each rule that c breaks. Defaults must be set.
func (c Config) validate() error {
	review := kube.Review{Package: "endpoints"}
	review.Value("Namespace", c.Namespace, kube.NamespaceProblems(c.Namespace))
	review.Value("Service", c.Service, validation.IsDNS1035Label(c.Service))
	if len(c.Addresses) == 0 {
		review.Value("Addresses", "", []string{"must have at least one"})
	}
	for i, a := range c.Addresses {
		review.Value("Addresses", a.String(), addressProblems(a))
		if i > 0 && a == c.Addresses[i-1] {
			review.Value("Addresses", a.String(), []string{"must differ"})
		}
	}
	c.validatePorts(&review)
	review.Value("PodUID", c.PodUID, incarnationProblems(c.PodUID))
	review.Add(c.Store.problems(c)...)
	if c.Interval < minInterval {
		review.Value("Interval", c.Interval.String(), []string{fmt.Sprintf("must be at least %v", minInterval)})
	}
	if c.ExpireAfter/heartbeats < c.Interval {
		review.Add(fmt.Errorf("ExpireAfter: must be at least %d times Interval, %v (got %v)", heartbeats,
			heartbeats*c.Interval, c.ExpireAfter))
	}
	if c.Settings != "" {
		review.Value("Settings", c.Settings, validation.IsDNS1123Subdomain(c.Settings))
	}
	review.Duration("WithdrawTimeout", c.WithdrawTimeout)
	if c.MaxFailing != 0 && c.MaxFailing < c.ExpireAfter {
		review.Add(fmt.Errorf("MaxFailing: must be 0 or at least ExpireAfter, %v (got %v)", c.ExpireAfter,
			c.MaxFailing))
	}
	return review.Err()
}

func (c Config) validatePorts(review *kube.Review) {
	broken := func(rule string, args ...any) { review.Add(fmt.Errorf("Ports: "+rule, args...)) }
	if len(c.Ports) == 0 || len(c.Ports) > maxPorts {
		broken("must be from 1 to %d (got %d)", maxPorts, len(c.Ports))
	}
	names := map[string]bool{}
	for i, p := range c.Ports {
		for _, problem := range p.problems() {
			broken("%s", problem)
		}
		switch {
		case p.Name == "" && len(c.Ports) > 1:
			broken("must each have a Name if there are several (got none for %d)", p.Number)
		case names[p.Name]:
			broken("must differ in their Name (got %q twice)", p.Name)
		}
		names[p.Name] = true
		if i > 0 && p.Number == c.Ports[i-1].Number && p.Protocol == c.Ports[i-1].Protocol {
			broken("must differ in Number or Protocol (got %d %s twice)", p.Number, p.Protocol)
		}
	}
}

// endpoints returns this instance's endpoints, sorted.
func (c Config) endpoints() []Endpoint {
	var own []Endpoint
	for _, a := range c.Addresses {
		for _, p := range c.Ports {
			own = append(own, Endpoint{a, p})
		}
	}
	slices.SortFunc(own, Endpoint.compare)
	return own
}

func (c Config) service() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Service}
}

// ClientConfig returns a copy of config for the client of a [Reconciler]: with its own connection and
// without a rate limit.
//
// Copies of one config share one HTTP/2 connection: heartbeats would wait behind other traffic, and the
// rate limiter of a shared client would delay them too. A Reconciler needs no limit, because it paces
// itself. A custom config.Transport or Dial is kept, and must ensure the same.
func ClientConfig(config *rest.Config) *rest.Config { return kube.ClientConfig(config) }

// warnOfRateLimit warns if the client has a rate limit.
func warnOfRateLimit(client kubernetes.Interface, log *zap.Logger) {
	api := client.CoreV1().RESTClient()
	if api == nil || api.GetRateLimiter() == nil {
		return
	}
	if qps := api.GetRateLimiter().QPS(); qps > 0 {
		log.Warn("the client of the instance has a rate limit: heartbeats wait behind other requests of that client; "+
			"make it from ClientConfig", zap.Float32("qps", qps))
	}
}

// rights are those that an instance needs. Those of one resource follow one another.
func (c Config) rights() []kube.Right {
	all := slices.Concat(kube.RightsOn(serviceKind.resource, c.Namespace, c.Service, "get"),
		kube.RightsOn(sliceKind.resource, c.Namespace, "", "list", "get", "create", "update", "delete"))
	if c.PublishEndpoints {
		all = append(all, kube.RightsOn(endpointsKind.resource, c.Namespace, c.Service, "get", "create", "update")...)
	}
	all = append(all, c.Store.rights()...)
	if c.Settings != "" {
		all = append(all, kube.RightsOn(configMapKind.resource, c.Namespace, c.Settings, "get")...)
	}
	if c.Events != nil {
		all = append(all, kube.EventRights(c.Namespace)...)
	}
	return all
}

// missingPorts returns an error if the Service lacks ports of this instance. Clients find a port by
// its name and protocol, which both must share.
func (c Config) missingPorts(s *corev1.Service) error {
	var served, missing []string
	for _, p := range s.Spec.Ports {
		served = append(served, fmt.Sprintf("%q of %s", p.Name, cmp.Or(p.Protocol, corev1.ProtocolTCP)))
	}
	for _, p := range c.Ports {
		if name := fmt.Sprintf("%q of %s", p.Name, p.Protocol); !slices.Contains(served, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 || len(served) == 0 { // a headless Service may have no ports
		return nil
	}
	return fmt.Errorf("endpoints: Service %v has no port %s: add it to spec.ports, or rename it in Config.Ports "+
		"(the Service has %s)", c.service(), strings.Join(missing, ", "), strings.Join(served, ", "))
}

// missingFamilies returns an error if the Service lacks the family of an address of this instance, because
// then no node routes to it. Clients of a headless Service find all addresses in DNS.
func (c Config) missingFamilies(s *corev1.Service) error {
	has := s.Spec.IPFamilies
	var missing []string
	for _, a := range c.Addresses {
		if !slices.Contains(has, corev1.IPFamily(Endpoint{Address: a}.family())) {
			missing = append(missing, a.String())
		}
	}
	if len(missing) == 0 || len(has) == 0 || s.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return fmt.Errorf("endpoints: Service %v has no address of the family of %s: set spec.ipFamilyPolicy or "+
		"spec.ipFamilies, or change Config.Addresses (the Service has %v)", c.service(),
		strings.Join(missing, ", "), has)
}
