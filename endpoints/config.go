package endpoints

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Config of a [Reconciler]. All instances of a Service must have the same Namespace, Service, Store and Settings, and should have the same
// Interval, ExpireAfter and PublishEndpoints.
type Config struct {
	// Namespace and Service behind which this instance is. Both are required. The Service must have no selector.
	Namespace, Service string

	// Addresses under which clients reach this instance: at least one, IPv4 or IPv6, without zone, not loopback and not link-local. All ports
	// are served on each of them. IPv4 addresses mapped to IPv6 are unmapped.
	Addresses []netip.Addr

	// Ports that it serves: at least one, with different names. An address and a port belong to one instance at a time; instances
	// on one address need different ports.
	Ports []Port

	// Incarnation is the UID of this Pod, as from the downward API. With it a process that was
	// restarted with other Ports or Addresses removes at once, on Linux, what the one before had
	// entered; without it that stays until it has expired. It must be the Pod's, or at least
	// something that no process on another machine, or in another network namespace, can have.
	// Default: none.
	Incarnation string

	// Store is where the instances register: a [ConfigMapStore] or a [LeaseStore]. Default: ConfigMapStore{}.
	Store Store

	// Interval is the time between two rounds, and two heartbeats. At least 1 s. It is shorter while ExpireAfter is less than three of them.
	// Default: 10 s.
	Interval time.Duration

	// ExpireAfter is for how long an instance has to have been seen without a heartbeat until the others remove it. At least three
	// Intervals. Default: 1 min.
	ExpireAfter time.Duration

	// Settings is the name of a ConfigMap in Namespace whose key expire-duration, a Go duration of at least 3 s, takes the place of
	// ExpireAfter. It is read in each round. While it cannot be read, is missing or is not valid, the last good value stays. Default: none.
	Settings string

	// Ready says whether clients may be sent here: it is asked before each heartbeat, and while it
	// returns an error this instance is withdrawn. It has a quarter of an Interval, or of 4 s if
	// that is longer. Then its context ends, and this instance is withdrawn as well, whether Ready
	// returns or not. While a call has not returned there is no other. It runs in a goroutine of
	// its own. Nil: it is ready.
	Ready func(ctx context.Context) error

	// PublishEndpoints also keeps an Endpoints object up to date, for clients that know no EndpointSlices. The API server sends a warning with each
	// request for that deprecated kind; a client with rest.Config.WarningHandler = rest.NoWarnings{} does not log it.
	PublishEndpoints bool

	// WithdrawTimeout bounds how long Run takes to withdraw this instance after its context has ended. Default: 10 s.
	WithdrawTimeout time.Duration

	// Hooks are told what happens, for metrics and tests.
	Hooks Hooks

	// Events gets Kubernetes Events about the Service, such as that an instance has expired. Nil: none.
	Events EventRecorder

	// Logger gets what changes at Info, what is wrong at Warn, once. Nil: no logs.
	Logger *zap.Logger

	// Clock is for simulations that give every instance a time of its own. Nil: the system's.
	Clock Clock
}

// Clock is the time of one process, for simulations that replace it. Tests of programs need none: they run in a bubble of testing/synctest.
type Clock = clock.Clock

const (
	defaultInterval        = 10 * time.Second
	defaultExpireAfter     = time.Minute
	defaultWithdrawTimeout = 10 * time.Second

	minInterval = time.Second
	// heartbeats is how many an instance has until it has expired.
	heartbeats = 3
)

// withDefaults returns c with its zero fields set, and nothing of the caller's in it that could change.
func (c Config) withDefaults() Config {
	c.Addresses, c.Ports = slices.Clone(c.Addresses), slices.Clone(c.Ports)
	for i, a := range c.Addresses {
		if a.Zone() == "" { // which Unmap would drop, and is to be refused
			c.Addresses[i] = a.Unmap()
		}
	}
	slices.SortFunc(c.Addresses, netip.Addr.Compare)
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	slices.SortFunc(c.Ports, Port.compare)
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.ExpireAfter == 0 {
		c.ExpireAfter = defaultExpireAfter
	}
	if c.WithdrawTimeout == 0 {
		c.WithdrawTimeout = defaultWithdrawTimeout
	}
	if c.Store == nil {
		c.Store = ConfigMapStore{}
	}
	c.Store = c.Store.withDefaults(c)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Ready == nil {
		c.Ready = func(context.Context) error { return nil }
	}
	return c
}

// validate returns all rules that c breaks, once its defaults are set.
func (c Config) validate() error {
	review := lease.Review{Package: "endpoints"}
	review.Value("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
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
	review.Value("Incarnation", c.Incarnation, incarnationProblems(c.Incarnation))
	review.Add(c.Store.problems(c)...)
	if c.Interval < minInterval {
		review.Value("Interval", c.Interval.String(), []string{fmt.Sprintf("must be at least %v", minInterval)})
	}
	if c.ExpireAfter/heartbeats < c.Interval {
		review.Add(fmt.Errorf("ExpireAfter: must be at least %d times Interval, %v (got %v)", heartbeats, heartbeats*c.Interval, c.ExpireAfter))
	}
	if c.Settings != "" {
		review.Value("Settings", c.Settings, validation.IsDNS1123Subdomain(c.Settings))
	}
	review.NotNegative("WithdrawTimeout", c.WithdrawTimeout)
	return review.Err()
}

func (c Config) validatePorts(review *lease.Review) {
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

// endpoints are the own ones, sorted.
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
