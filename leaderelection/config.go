package leaderelection

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
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
	// container: two processes of one identity can take each other's writes for their own, and both lead. Default: <hostname>_<32 random hexadecimal digits>. At most 253 bytes without control characters.
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
	// after the deadline; Run then waits for the lead function and contends again.
	OnLost func(error)

	// Guard is about the transports that [Elector.WrapTransport] returns. Its zero value is the strictest.
	Guard GuardConfig

	// Logger gets transitions at Info, failing requests at Warn, once each. Nil: no logs.
	Logger *zap.Logger

	// Clock is for simulations that give every replica a time of its own. Nil: the system's.
	Clock Clock
}

// Clock is the time of one process.
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
		c.OnLost = exit(c.Logger)
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
	var errs []error
	check := func(field, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("%s: %s (got %q)", field, problem, value))
		}
	}
	check("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
	check("Name", c.Name, validation.IsDNS1123Subdomain(c.Name))
	check("Identity", c.Identity, identityProblems(c.Identity))
	errs = append(errs, c.timing().Validate()...)
	if c.ReleaseTimeout < 0 {
		errs = append(errs, fmt.Errorf("ReleaseTimeout: must not be negative (got %v)", c.ReleaseTimeout))
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("leaderelection: %w", err)
	}
	return errors.Join(errs...)
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

func (c Config) timing() lease.Timing {
	return lease.Timing{Duration: c.LeaseDuration, Margin: c.Margin, MissedRenewals: c.MissedRenewals}
}

func (c Config) lease() types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}
