package shardlease

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// Config of a [Lease]. All shards of a ring, and its sharders, should have the same LeaseDuration,
// MissedRenewals and Margin. Each process waits as long as the record of the other states, so a
// rollout that changes them is safe. Only without such a record, because a user emptied or deleted
// it, does a sharder wait for its own configured time.
type Config struct {
	// Namespace of the Lease. Required. All leases of a ring are in one namespace.
	Namespace string

	// Ring is the name of the ring, a DNS-1123 label. Required. Two rings of one process need two
	// identities, or two namespaces.
	Ring string

	// Identity is the name of the shard, of its Lease and of the Lease's holder, and the value of
	// its objects' label. It stays the same over restarts and belongs to one process at a time, so
	// a second process waits until the first has released the lease, or has not renewed it for
	// LeaseDuration. A DNS-1123 subdomain of at most 63 characters. Default: the hostname, which is
	// a Pod's name, unless it is longer.
	Identity string

	// PodUID is the UID of this Pod, as from the downward API. With it, a restarted container takes
	// its lease back at once, on Linux, while without it, the container waits until the lease has
	// expired. It must be the Pod's UID, or at least a value that no process on another machine or
	// in another network namespace has. Default: none.
	//
	// Once the lease has been held for MinUptime, it also names the Pod. When the kubelet reports that
	// the container has ended, a sharder that may watch the Pod releases the lease a Margin later, by
	// the rules of package leaderelection.
	PodUID string

	// PodName is the name of this Pod, in the namespace of the lease. With a wrong name, the
	// sharder does not find the kubelet's report. Default: Identity, or the hostname with
	// [ClaimOrdinal].
	PodName string

	// LeaseDuration (D) is the time after which a lease that was not renewed has expired. After 2D
	// the sharder may take it over. Whole seconds, at most [MaxLeaseDuration]. Default: 15 s.
	LeaseDuration time.Duration

	// MissedRenewals (n) is how many renewals in a row may fail before the lease is lost. Default:
	// 3.
	MissedRenewals int

	// Margin (M) is how long before the end of LeaseDuration a shard that cannot renew has stopped.
	// At least 200 ms. At least a second must remain between renewals: (D - M) / (n + 1) >= 1 s.
	// Default: a fifth of LeaseDuration.
	Margin time.Duration

	// ReleaseTimeout bounds how long work, and the functions of [Lease.AddReleaseGate], may run
	// after Run's context has ended. Beyond it, OnLost is called and the lease is not released. Set
	// a Pod's terminationGracePeriodSeconds longer by six renew intervals and a Margin. Default: no
	// limit.
	ReleaseTimeout time.Duration

	// StepDown is how long before the deadline the work is asked to end if the lease cannot be
	// renewed, as while the API server is away. If it has returned by the deadline, this process
	// stays, with its caches, and takes the lease back if no other process has, in which case no
	// object moves. Otherwise the lease is lost at the deadline as without StepDown. The rules are
	// those of package leaderelection. At most (n - 1) * R, which is 6 s by default. Default: 0,
	// the work is not asked.
	StepDown time.Duration

	// ReturnWithin is how long after a release the shard is expected back. It is for identities
	// that outlive a rollout, such as the Pod names of a StatefulSet. Until then the shard's
	// objects, and new ones of its part of the ring, wait for it. Later they go to other shards, as
	// after a scale-down. Set it longer than the replacement of a Pod takes, such as 30 s. Whole
	// seconds, at most [MaxLeaseDuration]. Default: 0, objects go to others at once.
	ReturnWithin time.Duration

	// Weight is how many objects the shard gets, compared with others: one of weight 50 gets half as
	// many as one of weight 100. From 0, a shard that gets objects only if all others have weight 0 as
	// well, to [MaxWeight]. An administrator may override it ([WeightAnnotation]). Nil:
	// [DefaultWeight], which is 100.
	Weight *int

	// Version is the version of the program, which kubectl bellwether shows. It has no effect. At most
	// 63 bytes. Default: none.
	Version string

	// KernelDeadline makes the kernel kill this process half a Margin after the deadline if it
	// cannot end itself: stopped (SIGSTOP), starved of CPU, or resumed from suspension. Without it,
	// a shard that was stopped can act until it notices, after another shard has taken its objects.
	// Linux only, and not as PID 1 of a pid namespace: New's error then names the ways out, such as
	// [ReexecIfPID1]. Where the system has no such timer or forbids it, the error matches
	// errors.ErrUnsupported.
	KernelDeadline bool

	// Supervisor releases the lease when this process has died ([supervisor.Supervisor.Client]), so
	// that the shard's objects go to others at once, or after ReturnWithin, instead of after 2D.
	// Nil: they wait.
	Supervisor *supervisor.Client

	// MinUptime is how long this process must have held its lease before the Supervisor, or a
	// sharder that has seen the end of its container, releases it. A process that dies earlier may
	// be in a crash loop, which would move its objects at each crash and each restart, so its lease
	// is left to expire, and a process that restarts within 2D keeps them. Default: 4D. A negative
	// value means that the lease is always released.
	MinUptime time.Duration

	// Labels of the Lease, in addition to those of this package.
	Labels map[string]string

	// OnLost is called once when the lease is lost, from any goroutine, with an [ErrLost] that
	// names the Lease, its holder and the last renewal. The context of work has ended, but work may
	// still run. The default logs the error (to standard error without a Logger) and exits with
	// [ExitCodeNotHeld], even if logging blocks. An OnLost that returns must ensure that work stops
	// before the lease expires, Margin after the deadline; Run then waits for work and acquires the
	// lease again. Run returns after OnLost: an OnLost that waits for Run deadlocks.
	OnLost func(error)

	// Healthy reports whether the work is alive. While it returns an error, no renewal is sent, so
	// the lease is lost at its deadline ([ErrUnhealthy]). It is called before each renewal, by the
	// rules of package leaderelection, and must return quickly. Nil: always healthy.
	Healthy func(ctx context.Context) error

	// MaxFailing is how long requests about the Lease may fail until [Lease.Check] returns an
	// error, so that a liveness probe restarts a candidate whose network, DNS or credentials do not
	// recover by themselves. As an outage of the API server would restart all candidates, set it
	// longer than the outages that they should sit out, such as 30 min. At least LeaseDuration.
	// Default: 0, Check ignores requests.
	MaxFailing time.Duration

	// Hooks are called on changes, for metrics.
	Hooks Hooks

	// Guard configures the transports of [Lease.WrapTransport]. The zero value is the strictest.
	Guard GuardConfig

	// Logger gets transitions at Info, and failing requests at Warn: each reason once, and again
	// every 10 minutes with how long they have failed. Nil: no logs.
	Logger *zap.Logger

	// Clock is for simulations in which each shard has its own time. Nil: the system's clock.
	Clock Clock

	terminationLog string // empty: the container's

	pod    string                                        // the hostname, if Identity was claimed
	killer leasehold.KillTimer                           // for all names that are tried; nil at first
	occupy func(name string) (release func(), err error) // nil: [process.Lock]
}

// GuardConfig configures the transports of [Lease.WrapTransport]. Its fields are those of the type of
// this name in package leaderelection.
type GuardConfig = leasehold.GuardConfig

// MaxLeaseDuration is the longest LeaseDuration. A lease that names a longer one is Malformed
// (package shardstate), so that no lease can keep a shard's objects from the others for good.
const MaxLeaseDuration = time.Hour

// Clock is the time of one process, for simulations that replace it. Tests of programs need no
// Clock, because they can run in a bubble of testing/synctest.
type Clock = clock.Clock

// withDefaults returns c with its zero fields set.
func (c Config) withDefaults() (Config, error) {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("shardlease: Identity: no hostname to be the default: %w", err)
		}
		c.Identity = host
	}
	c.LeaseDuration = c.timing().Duration
	c.Labels = maps.Clone(c.Labels)
	if c.MinUptime == 0 {
		c.MinUptime = 4 * c.LeaseDuration
	}
	if c.OnLost == nil {
		c.OnLost = leasehold.Exit(c.Logger, "the shard lease is lost")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.occupy == nil {
		c.occupy = process.Lock
	}
	return c, nil
}

// validate returns all rules that c breaks, once its defaults are set. hold is what was made of c.
func (c Config) validate(hold leasehold.Config) error {
	review := kube.Review{Package: "shardlease"}
	hold.Review(&review)
	review.Value("Ring", c.Ring, validation.IsDNS1123Label(c.Ring))
	review.Value("Identity", c.Identity, shardrecord.IdentityProblems(c.Identity))
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		review.Value("Labels", key, labelKeyProblems(key))
		review.Value(fmt.Sprintf("Labels[%q]", key), c.Labels[key], validation.IsValidLabelValue(c.Labels[key]))
	}
	if c.LeaseDuration > MaxLeaseDuration {
		review.Add(fmt.Errorf("LeaseDuration: must be at most %v (got %v)", MaxLeaseDuration, c.LeaseDuration))
	}
	if c.ReturnWithin < 0 || c.ReturnWithin > MaxLeaseDuration || c.ReturnWithin%time.Second != 0 {
		review.Add(fmt.Errorf("ReturnWithin: must be whole seconds, at most %v (got %v)", MaxLeaseDuration,
			c.ReturnWithin))
	}
	if w := ptr.Deref(c.Weight, DefaultWeight); w < 0 || w > MaxWeight {
		review.Value("Weight", strconv.Itoa(w), []string{fmt.Sprintf("must be from 0 to %d", MaxWeight)})
	}
	if len(c.Version) > maxVersion || strings.ContainsFunc(c.Version, unicode.IsControl) {
		review.Value("Version", c.Version, []string{fmt.Sprintf("must be at most %d bytes, on one line", maxVersion)})
	}
	return review.Err()
}

const maxVersion = 63

func labelKeyProblems(key string) []string {
	problems := validation.IsQualifiedName(key)
	if key == RingLabel {
		problems = append(problems, "must not be the ring's own label")
	}
	return problems
}

// timing returns the timing with its defaults.
func (c Config) timing() lease.Timing {
	return lease.Timing{
		Duration: c.LeaseDuration, Margin: c.Margin, MissedRenewals: c.MissedRenewals,
	}.WithDefaults()
}

// hold returns the configuration of what all kinds of leases have in common.
func (c Config) hold() leasehold.Config {
	return leasehold.Config{
		Lease:          types.NamespacedName{Namespace: c.Namespace, Name: c.Identity},
		Identity:       c.Identity,
		Timing:         c.timing(),
		ReleaseTimeout: c.ReleaseTimeout,
		StepDown:       c.StepDown,
		MaxFailing:     c.MaxFailing,
		Pod: leasehold.Pod{
			Name: cmp.Or(c.PodName, c.pod, c.Identity), UID: types.UID(c.PodUID), MinUptime: max(0, c.MinUptime),
			Log: c.terminationLog,
		},
		Healthy:        c.Healthy,
		NotHeld:        ErrNotHeld,
		Guard:          c.Guard,
		KernelDeadline: c.KernelDeadline,
		KillTimer:      c.killer,
		Supervisor:     c.Supervisor,
		Clock:          c.Clock,
		Log:            c.Logger,
	}
}
