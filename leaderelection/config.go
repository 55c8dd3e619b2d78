package leaderelection

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// Config configures an [Elector]. Replicas that contend for one Lease should have the same
// LeaseDuration, MissedRenewals and Margin. A candidate waits as long as the record states, so a
// rollout that changes them is safe. If the record was emptied or deleted, it waits for its own
// LeaseDuration.
type Config struct {
	// Namespace and Name of the Lease. Required. One Lease elects one leader.
	Namespace, Name string

	// Identity is written into the Lease as its holder. It must be unique per process, even across
	// restarts of a container, because processes that share one can take each other's writes for
	// their own, and both lead. At most 253 bytes, without control characters. Default:
	// <hostname>_<16 random hexadecimal digits>. With an admission policy of package
	// leaderelection/admission, use its PodIdentity.
	Identity string

	// LeaseDuration (D) is how long a candidate waits after the last renewal it saw before it takes
	// over. Whole seconds. Default: 15 s.
	LeaseDuration time.Duration

	// MissedRenewals (n) is how many renewals in a row may fail before leadership is lost. Default:
	// 3.
	MissedRenewals int

	// Margin (M) is how long before the end of LeaseDuration a leader that cannot renew has
	// stopped. It covers the difference in rate of two machines' clocks over LeaseDuration, and the
	// time until work notices. At least 200 ms, because the process may take 100 ms to end. At
	// least a second must remain between renewals: (D - M) / (n + 1) >= 1 s. Default: a fifth of
	// LeaseDuration.
	Margin time.Duration

	// ReleaseTimeout bounds how long the lead function may run after Run's context has ended. After
	// it, OnLost is called and the Lease is not released, because work may be running. Set a Pod's
	// terminationGracePeriodSeconds longer by five renew intervals, for an API server that hangs
	// (one for a renewal under way, four for the release), and by one more and Margin if the guard is used.
	// Default: no limit.
	ReleaseTimeout time.Duration

	// StepDown is how long before the deadline Run asks the lead function to end if the Lease
	// cannot be renewed, as in an outage of the API server. If the function has returned by the
	// deadline, this process stays, with its caches, and contends again. It takes the Lease back at
	// once if no other process has it and every guarded request had an answer. If the function has
	// not returned, leadership is lost at the deadline as without StepDown, and OnLost is called.
	// Set StepDown longer than the function takes to return. In return, terms end after an outage
	// that is shorter by StepDown. Work that is not Healthy is not asked. At most (n - 1) * R, 6 s
	// by default. Default: 0, the lead function is not asked.
	StepDown time.Duration

	// KernelDeadline makes the kernel kill this process half a Margin after the deadline if it
	// cannot end itself: stopped (SIGSTOP), starved of CPU, or resumed from suspension. If OnLost
	// returns, the lead function must return before then; after TryAcquire, Release must be called.
	// Linux only, and not as PID 1 of a pid namespace, as in a container without
	// shareProcessNamespace: New's error then names the ways out, such as [ReexecIfPID1]. Where the
	// system has no such timer or forbids it, the error matches errors.ErrUnsupported. An elector
	// keeps its kernel timer until the process ends.
	KernelDeadline bool

	// Supervisor releases the Lease when this process has died: [supervisor.Supervisor.Client]. If
	// nil, the successor waits until the Lease has expired.
	Supervisor *supervisor.Client

	// PodUID is the UID of this Pod, as from the downward API. With it, the Lease names the Pod.
	// When the kubelet reports that the container has ended, a candidate that may watch the Pod
	// releases the Lease a Margin later instead of waiting until it has expired. A line of random
	// text, which identifies this process in the kubelet's report, is appended to the container's
	// termination message (/dev/termination-log), so the message is never taken from the
	// container's log (FallbackToLogsOnError). Default: none.
	PodUID string

	// PodName is the name of this Pod, in the namespace of the Lease. With a wrong name, PodUID has
	// no effect. Default: the hostname, which is a Pod's name unless it has hostNetwork or a hostname
	// of its own.
	PodName string

	// TrustForeignRelease treats a record that another elector, such as client-go's, has emptied as
	// released. It shortens the handover in a migration by a LeaseDuration, but those electors
	// empty the record before their work has stopped, unless their program prevents it. A record of
	// ours that another process emptied is never treated as released.
	TrustForeignRelease bool

	// OnLost is called once when leadership is lost, from any goroutine, with an [ErrLost] that
	// names the Lease, its holder and the last renewal. The lead function's context has ended, but
	// the function may still run. The default logs the error (to standard error without a Logger)
	// and exits with [ExitCodeNotLeader], even if logging blocks. An OnLost that returns must
	// ensure that work stops before the lease expires, Margin after the deadline; Run then waits
	// for the lead function and contends again. Run returns after OnLost, so an OnLost that waits
	// for Run deadlocks.
	OnLost func(error)

	// Healthy reports whether the work is alive. While it returns an error, no renewal is sent, so
	// the Lease is lost at its deadline, with an error that matches [ErrUnhealthy], unless the work
	// recovers in time. Nil: always healthy.
	//
	// It is called before each renewal while the lead function runs: every renew interval, and
	// after a failure after 100 ms, then with growing pauses of up to half a renew interval. Calls
	// run one at a time in their own goroutine. ctx is derived from the lead function's and ends
	// after half a renew interval, or earlier near the deadline; a later result counts as an error.
	// The deadline and Run do not wait for a call that hangs. Return quickly, because the renewal
	// waits.
	//
	// It is not called for candidates, nor once the context of Run has ended; ReleaseTimeout bounds
	// the work then. Renew calls it with a context derived from its own.
	Healthy func(ctx context.Context) error

	// MaxFailing is how long requests about the Lease may fail until [Elector.Check] returns an
	// error, so that a liveness probe restarts a candidate whose network, DNS or credentials do not
	// recover by themselves. An outage of the API server also restarts all candidates, so set it
	// longer than the outages that they should survive, such as 30 min. At least LeaseDuration.
	// Default: 0, Check ignores requests.
	MaxFailing time.Duration

	// Address is where this process can be reached while it leads: host:port with an IP address or
	// a DNS name. It is in the Lease's annotation [AddressAnnotation] from the start of a term
	// until the release or the next leader of this package. Replicas read it with
	// [Elector.LeaderAddress]. The process may be gone, so verify who answers. Default: none.
	Address string

	// Hooks are called on changes, for metrics and dashboards.
	Hooks Hooks

	// Events records on the Lease who became leader, and who stopped leading and why: with the
	// reason LeaderElection, "<identity> became leader", "<identity> stopped leading", and the
	// warning "<identity> lost the lead: <why>". The managers of controller-runtime return such a
	// recorder; NewEventRecorderAdapter of k8s.io/client-go/tools/record converts an older one.
	// Nothing waits longer than 50 ms for an Eventf that blocks, not even the process that exits
	// after a loss, and further Events are dropped. Nil: no Events.
	Events events.EventRecorder

	// Guard configures the transports of [Elector.WrapTransport]. The zero value is the strictest.
	Guard GuardConfig

	// Logger gets transitions at Info and failing requests at Warn: each reason once, and again
	// every 10 minutes with how long they have failed. Nil: no logs.
	Logger *zap.Logger

	// Clock is for simulations in which each replica has its own time. Nil: the system's clock.
	Clock Clock

	terminationLog string // the container's if empty
}

// withDefaults returns c with defaults for its zero fields.
func (c Config) withDefaults() (Config, error) {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("leaderelection: Identity: no hostname to make the default of: %w", err)
		}
		c.Identity = lease.NewIdentity(host)
	}
	if c.OnLost == nil {
		c.OnLost = leasehold.Exit(c.Logger, "not the leader any more")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c, nil
}

// validate returns one error for each rule that c breaks. hold is what was made of c.
func (c Config) validate(hold leasehold.Config) error {
	review := kube.Review{Package: "leaderelection"}
	hold.Review(&review)
	review.Value("Name", c.Name, validation.IsDNS1123Subdomain(c.Name))
	review.Value("Identity", c.Identity, leasehold.TextProblems(c.Identity))
	review.Value("Address", c.Address, addressProblems(c.Address))
	return review.Err()
}

func addressProblems(address string) []string {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return []string{"must be host:port, with an IPv6 address in brackets"}
	}
	var problems []string
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil && len(validation.IsDNS1123Subdomain(host)) > 0:
		problems = append(problems, "must have an IP address or a DNS name before its port")
	case ip.Zone() != "":
		problems = append(problems, "must have no zone, which means something on one host only")
	case ip.IsValid() && ip.IsUnspecified():
		problems = append(problems, "must be what others can connect to")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		problems = append(problems, "must have a port from 1 to 65535")
	}
	return problems
}

// hold returns the configuration of what all kinds of leases have in common.
func (c Config) hold() leasehold.Config {
	return leasehold.Config{
		Lease:    types.NamespacedName{Namespace: c.Namespace, Name: c.Name},
		Identity: c.Identity,
		Timing: lease.Timing{
			Duration: c.LeaseDuration, Margin: c.Margin, MissedRenewals: c.MissedRenewals,
		}.WithDefaults(),
		TrustForeign:   c.TrustForeignRelease,
		ReleaseTimeout: c.ReleaseTimeout,
		StepDown:       c.StepDown,
		MaxFailing:     c.MaxFailing,
		Address:        c.Address,
		Pod:            leasehold.Pod{Name: c.PodName, UID: types.UID(c.PodUID), Log: c.terminationLog},
		Healthy:        c.Healthy,
		NotHeld:        ErrNotLeader,
		Guard:          c.Guard,
		KernelDeadline: c.KernelDeadline,
		Supervisor:     c.Supervisor,
		Clock:          c.Clock,
		Log:            c.Logger,
		NoteWrites:     true,
		Events:         c.Events != nil,
	}
}

// Clock is the time of one process. Simulations implement it to give each replica its own time.
// Tests of programs do not need it, because they run in a testing/synctest bubble.
//
// NewTimer and AfterFunc return a Timer of k8s.io/utils/clock, which counts as Monotonic does. An
// elector holds no lock while it calls Now.
type Clock = clock.Clock

// ClockReading is what Now of a [Clock] returns. The greatest elapsed time of the three clocks
// bounds how long a leader may act.
type ClockReading = clock.Reading

// AddressAnnotation is the annotation of the Lease that holds its leader's [Config].Address.
const AddressAnnotation = lease.AddressAnnotation

// LeaseConfig returns a copy of config for the client of an [Elector], with its own connection and
// without a rate limit.
//
// Copies of one config share one HTTP/2 connection, so renewals would wait behind the workload's
// traffic, and stall when the connection dies silently. A shared rate limiter would also delay
// them. Over HTTP/1.1, a request that times out closes its connection, and the next one opens
// another. An elector needs no limit, because it paces itself. A custom config.Transport or Dial is
// kept, and must ensure the same.
func LeaseConfig(config *rest.Config) *rest.Config { return leasehold.ClientConfig(config) }
