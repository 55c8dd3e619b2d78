package leaderelection

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Config of an [Elector]. All replicas that contend for one Lease should have the same LeaseDuration, MissedRenewals and
// Margin. Everyone waits as long as the record of the other says, so a roll-out that changes them is safe; only where there is
// no such record, because somebody emptied or deleted it, does a newcomer wait for a LeaseDuration of its own.
type Config struct {
	// Namespace and Name of the Lease. Required. One Lease elects one leader: two kinds of daemon need two names.
	Namespace, Name string

	// Identity is written into the Lease as its holder. It must be unique per process, also among restarts of one
	// container: two processes of one identity can take each other's writes for their own, and both lead. At most 253 bytes
	// without control characters. Default: <hostname>_<32 random hexadecimal digits>. [PodIdentity] makes one from which
	// the API server can tell the leader's Pod, as an [AdmissionPolicy] needs.
	Identity string

	// LeaseDuration (D) is how long a candidate waits after the last renewal it saw before it takes over. Whole
	// seconds. Default: 15 s.
	LeaseDuration time.Duration

	// MissedRenewals (n) is how many renewals in a row may fail before leadership is lost. Default: 3.
	MissedRenewals int

	// Margin (M) is how long before the end of LeaseDuration a leader that cannot renew has stopped. It has to cover
	// the difference in rate of two machines' clocks over LeaseDuration, and the time that work takes to notice. It
	// has to leave at least a second between renewals: (D - M) / (n + 1) >= 1 s. Default: a fifth of LeaseDuration.
	Margin time.Duration

	// ReleaseTimeout is how long the lead function may take to return after its context has ended with that of
	// Run. When it is over OnLost is called and the Lease is not released, because work may be running. A Pod's
	// terminationGracePeriodSeconds should be longer by seven renew intervals, in case the API server hangs: three
	// for a renewal that is under way, four for the release; and by Margin with a guard, for its requests. Default: no
	// limit.
	ReleaseTimeout time.Duration

	// KernelDeadline has the kernel end this process with SIGKILL half a Margin after the deadline, for when it cannot do so
	// itself: stopped (SIGSTOP), starved of CPU, or woken from a suspension. An OnLost that returns has until then for
	// the lead function to return; after TryAcquire, until Release. Linux only, and not as PID 1 of a pid namespace,
	// which a container's first process is unless its Pod has shareProcessNamespace: New then returns an error that names
	// the ways out, such as [ReexecIfPID1]. Where the system has no such timer or forbids it, the error is errors.ErrUnsupported.
	// An elector keeps its kernel timer until the process ends.
	KernelDeadline bool

	// TrustForeignRelease takes a record for released that another elector, such as client-go's, has emptied. It
	// makes a migration's hand-over faster by a LeaseDuration, but those electors empty the record before their work
	// has stopped, unless their program sees to that. A record of ours that another one has emptied is no such release.
	TrustForeignRelease bool

	// OnLost is called once when leadership is lost, from whichever goroutine finds out, with an error that says
	// which Lease, who holds it now and when it was last renewed ([ErrLost]). At that time the lead function's
	// context has ended, but the function may still be running, so the default ends the process: it writes the error
	// to Logger (to standard error if there is none) and exits with [ExitCodeNotLeader], also if writing blocks.
	// An OnLost that returns has taken over the responsibility that work stops before the lease expires, Margin
	// after the deadline; Run then waits for the lead function and contends again. Run returns after OnLost has:
	// an OnLost that waits for Run, or for what ends after Run, waits for ever.
	OnLost func(error)

	// Healthy says whether the work is alive: while it returns an error, no renewal is sent. Work that is dead then loses the
	// Lease at its deadline as it would by missed renewals, with an error that is an [ErrUnhealthy]; renewals go on if it
	// recovers in time. Nil: it is.
	//
	// It is called before each renewal while the lead function runs: every renew interval, and while it or the renewal
	// fails again after 100 ms, then less and less often, up to half a renew interval. Each call comes from a goroutine of
	// its own, one at a time. ctx is derived from that of the lead function and ends after half a renew interval (earlier
	// if the deadline is near); what is said later counts as an error, and as long as a call has not returned there is no
	// other. Neither the deadline nor Run waits for a call that does not return. Answer quickly: the renewal waits.
	//
	// It is not called while a candidate, which has no work yet that could be healthy; nor once the context of Run has
	// ended, because work that stops may well say that it is not at work, and has ReleaseTimeout for its limit. Renew, called
	// by itself, asks too, with a context derived from its own.
	Healthy func(ctx context.Context) error

	// Address is where this process can be reached while it is the leader, as host:port with an IP address or a DNS name.
	// It is written into the Lease's annotation [AddressAnnotation] with the write that begins a term, and goes
	// with the release or with the next leader of this package. Clients of the daemon find the leader by it, and replicas
	// by [Elector.LeaderAddress]: ask who answers, because it may be long gone. Default: none.
	Address string

	// Hooks are told what happens, for metrics and dashboards.
	Hooks Hooks

	// Events records on the Lease who became leader and who stopped to be it, and why. Nil: no Events.
	Events EventRecorder

	// Guard is about the transports that [Elector.WrapTransport] returns. Its zero value is the strictest.
	Guard GuardConfig

	// Logger gets transitions at Info, failing requests at Warn, once each. Nil: no logs.
	Logger *zap.Logger

	// Clock is for simulations that give every replica a time of its own. Nil: the system's.
	Clock Clock
}

// Clock is the time of one process, for simulations that replace it. Tests of programs need none: they run in a bubble of testing/synctest.
type Clock = clock.Clock

// withDefaults returns c with its zero fields set.
func (c Config) withDefaults() (Config, error) {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("leaderelection: Identity: no hostname to make the default of: %w", err)
		}
		suffix := make([]byte, 16)
		_, _ = rand.Read(suffix) // never fails
		c.Identity = host + "_" + hex.EncodeToString(suffix)
	}
	t := c.timing().WithDefaults()
	c.LeaseDuration, c.Margin, c.MissedRenewals = t.Duration, t.Margin, t.MissedRenewals
	if c.OnLost == nil {
		c.OnLost = lease.Exit(c.Logger, "not the leader any more")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	return c, nil
}

// validate returns all rules that c breaks, once its defaults are set.
func (c Config) validate() error {
	review := lease.Review{Package: "leaderelection"}
	review.Value("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
	review.Value("Name", c.Name, validation.IsDNS1123Subdomain(c.Name))
	review.Value("Identity", c.Identity, identityProblems(c.Identity))
	review.Value("Address", c.Address, addressProblems(c.Address))
	review.Add(c.timing().Validate()...)
	review.NotNegative("ReleaseTimeout", c.ReleaseTimeout)
	return review.Err()
}

func identityProblems(identity string) []string {
	var problems []string
	if len(identity) > validation.DNS1123SubdomainMaxLength {
		problems = append(problems, validation.MaxLenError(validation.DNS1123SubdomainMaxLength))
	}
	if !utf8.ValidString(identity) { // the API server would store something else
		problems = append(problems, "must be valid UTF-8")
	}
	if strings.ContainsFunc(identity, unicode.IsControl) {
		problems = append(problems, "must not contain control characters such as newlines")
	}
	return problems
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

func (c Config) timing() lease.Timing {
	return lease.Timing{Duration: c.LeaseDuration, Margin: c.Margin, MissedRenewals: c.MissedRenewals}
}

func (c Config) lease() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}
