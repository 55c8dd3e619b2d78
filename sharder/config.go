package sharder

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Config configures a [Sharder]. All replicas must have the same Ring, Namespace and Resources.
// Sharders that disagree are safe, but move objects back and forth whenever the leader changes. They are
// not safe if objects are [api.Resource].Children in one of them and a resource of their own in another,
// so end all replicas before such a change.
type Config struct {
	// Ring is the name of the ring: a DNS-1123 label, unique in the cluster among rings that have
	// resources in common. Required.
	Ring string

	// Namespace is that of the shards' Leases and of the ring's history. Required.
	Namespace string

	// Resources are distributed. Required. The objects of a removed resource keep their labels and
	// records.
	Resources []api.Resource

	// Balance bounds how many objects a shard has, if there are up to 1,000: at most this many times its share by
	// weight, and at least its share divided by this, each rounded to whole objects. Beyond, objects go to other
	// shards than the ring's, and as many move as that takes when others come and go. The objects of one Key
	// count together. A few objects are else spread by chance: of 5 on 3 shards, one shard gets none in 38 % of
	// all cases. At least 1, such as 1.25. Default: 0, the ring alone decides, which takes fewer moves and
	// no writes of the history for new objects.
	Balance float64

	// Concurrency is how many objects are worked on at a time. Objects whose requests take longer
	// than a quarter of a second do not count, up to four times as many. Default: 16.
	Concurrency int

	// MaxDrains bounds how many objects may be between two living shards at a time, without work on
	// them. Default: 500. Roots whose children are being moved, up to four times PageSize, do not
	// count.
	MaxDrains int

	// PageSize is how many objects are listed at a time, and held in memory per resource and
	// namespace. Pages of large objects have fewer, so that they take about 4 MB. Default: 500.
	PageSize int

	// ScanInterval is how often all objects are scanned, page by page, for what no watch shows:
	// edits of users that a shard does not repair itself, and what a former leader left undone. At
	// least a second. Default: 5 min. A scan that ended because of an outage is repeated within a
	// minute.
	ScanInterval time.Duration

	// LeaseDuration (D) should be that of the shards' Leases. The sharder waits that long for a
	// Lease that names no duration, and writes D into a Lease that it takes, so that the Lease's
	// shard cannot return before. Whole seconds. Default: 15 s.
	LeaseDuration time.Duration

	// GCPeriod is how long the Lease of a dead shard is kept. Default: 1 h.
	GCPeriod time.Duration

	// OverdueAfter is how long a shard may take to let go of an object before that is reported, and
	// how long a scan waits for one of MaxDrains places. At least a second. Default: 1 min.
	OverdueAfter time.Duration

	// UnownedAfter is how long an object may be without a living owner before that is reported. It
	// should be longer than the three to four LeaseDurations that the death of a shard may take.
	// Default: 1 min.
	UnownedAfter time.Duration

	// WatchAll makes the sharder watch all objects instead of only those without a shard. It then
	// repairs edits of users at once instead of by the next scan. It costs an event for each change
	// of any object, but no more memory. Children are not included.
	WatchAll bool

	// Hooks are called when something happens.
	Hooks Hooks

	// Events records the warning Unowned on objects without a living owner, up to 100 at a time,
	// and LabelsRemoved on objects from which others remove the ring's labels again and again, up
	// to 5 in 10 s. It needs the verbs create and patch on events of events.k8s.io, where the
	// objects are. Nil: no Events.
	Events events.EventRecorder

	// Logger receives transitions at Info, and failing requests and what an operator should know at
	// Warn. Nil: no logs.
	Logger *zap.Logger

	clock clock.Clock // simulations replace the system's
}

// minLeaseDuration is the shortest duration of a shard's Lease.
const minLeaseDuration = 3 * time.Second

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.MaxDrains = cmp.Or(c.MaxDrains, 500)
	c.PageSize = cmp.Or(c.PageSize, 500)
	c.ScanInterval = cmp.Or(c.ScanInterval, 5*time.Minute)
	c.LeaseDuration = cmp.Or(c.LeaseDuration, 15*time.Second)
	c.GCPeriod = cmp.Or(c.GCPeriod, time.Hour)
	c.OverdueAfter = cmp.Or(c.OverdueAfter, time.Minute)
	c.UnownedAfter = cmp.Or(c.UnownedAfter, time.Minute)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	c.clock = cmp.Or(c.clock, clock.System())
	h := &c.Hooks
	setHook(&h.OnMembership)
	setHook(&h.OnPatch)
	setHook(&h.OnScan)
	setHook(&h.OnSettled)
	setHook(&h.OnOverdue)
	setHook(&h.OnUnowned)
	setHook(&h.OnHeldBack)
	setHook(&h.OnUndone)
	setHook(&h.OnTaken)
	setHook(&h.OnCollected)
	setHook(&h.OnStorm)
	setHook(&h.OnResource)
	setHook(&h.OnThrottled)
	return c
}

// setHook makes sure that a hook can be called.
func setHook[T any](hook *func(T)) {
	if *hook == nil {
		*hook = func(T) {}
	}
}

// validate returns all rules that c breaks, after its defaults are set.
func (c Config) validate() error {
	var errs []error
	bad := func(field, rule string, got any) {
		errs = append(errs, fmt.Errorf("sharder: %s: %s (got %v)", field, rule, got))
	}
	for _, problem := range protocol.RingProblems(c.Ring) {
		bad("Ring", problem, fmt.Sprintf("%q", c.Ring))
	}
	for _, problem := range kube.NamespaceProblems(c.Namespace) {
		bad("Namespace", problem, fmt.Sprintf("%q", c.Namespace))
	}
	errs = append(errs, protocol.ValidateResources(c.Resources, protocol.KeysOf(c.Ring))...)
	within := func(field string, got, least, most int) {
		if got < least || got > most {
			bad(field, fmt.Sprintf("must be from %d to %d", least, most), got)
		}
	}
	if c.Balance != 0 && !(c.Balance >= 1 && c.Balance <= 100) { // NaN is neither
		bad("Balance", "must be 0, or from 1 to 100", c.Balance)
	}
	within("Concurrency", c.Concurrency, 1, 10_000)
	within("MaxDrains", c.MaxDrains, 1, math.MaxInt32)
	within("PageSize", c.PageSize, 1, 10_000)
	atLeast := func(field string, got, least time.Duration) {
		if got < least {
			bad(field, fmt.Sprintf("must be at least %v", least), got)
		}
	}
	atLeast("ScanInterval", c.ScanInterval, time.Second)
	atLeast("GCPeriod", c.GCPeriod, 0)
	atLeast("OverdueAfter", c.OverdueAfter, time.Second)
	atLeast("UnownedAfter", c.UnownedAfter, 0)
	switch {
	case c.LeaseDuration < minLeaseDuration || c.LeaseDuration > shardlease.MaxLeaseDuration:
		rule := fmt.Sprintf("must be from %v to %v", minLeaseDuration, shardlease.MaxLeaseDuration)
		bad("LeaseDuration", rule, c.LeaseDuration)
	case c.LeaseDuration%time.Second != 0:
		bad("LeaseDuration", "must be whole seconds, as the record stores it", c.LeaseDuration)
	}
	return errors.Join(errs...)
}

// Hooks are functions that a [Sharder] calls when something happens, for metrics and tests; each
// may be nil. They are called synchronously, from several goroutines, and must return quickly.
type Hooks struct {
	// OnMembership is called with the shards among which objects are distributed from now on,
	// sorted.
	OnMembership func(members []string)
	// OnPatch is called after each attempt to change an object's labels and record.
	OnPatch func(Patch)
	// OnScan is called with the result of a scan of all objects.
	OnScan func(Scan)
	// OnSettled is called when every object is with its owner under a membership that has changed.
	OnSettled func(members []string)
	// OnOverdue is called once for an object whose shard has not let go of it for
	// Config.OverdueAfter. The shard is alive, but its work on the object does not end, or it does
	// not see the object.
	OnOverdue func(Overdue)
	// OnUnowned is called once for an object that no living shard owns for Config.UnownedAfter, for
	// example because a policy denies the sharder's patch.
	OnUnowned func(Unowned)
	// OnHeldBack is called for an object that gets no owner for a while, because at least two
	// shards in a row have crashed while they had it.
	OnHeldBack func(HeldBack)
	// OnUndone is called when the sharder waits before it restores the ring's labels or annotations
	// on an object, because others have removed them three times within a minute. The pauses
	// double, from a second to five minutes.
	OnUndone func(Undone)
	// OnTaken is called with a shard that has proved dead: its Lease was taken.
	OnTaken func(shard string)
	// OnCollected is called with a dead shard whose Lease was deleted.
	OnCollected func(shard string)
	// OnStorm is called with shards that are given more time because they expired together.
	OnStorm func(shards []string)
	// OnResource is called when the objects of a resource cannot be listed or watched, or the
	// resource is not served, with the reason; and when that is over.
	OnResource func(ResourceState)
	// OnThrottled is called for each request that the client's own rate limit has delayed, with the
	// delay.
	OnThrottled func(wait time.Duration)
}

// Patch is one attempt to change an object.
type Patch struct {
	Object api.ObjectRef
	// Verb is the purpose: assign, drain, withdraw, restore, probe, seal, annul, gather or protect;
	// for a child, follow.
	Verb string
	// Shard is the value of the object's shard label afterwards.
	Shard string
	// Latency is how long the request took.
	Latency time.Duration
	// Err is nil if the patch was carried out. A conflict is harmless: the object has changed
	// meanwhile.
	Err error
}

// Scan is the result of a scan of all objects.
type Scan struct {
	// Objects is the number of objects. Placed is how many of them are with their owner on the
	// ring, with no other shard that may hold them, including those that the scan has put there.
	Objects, Placed int
	// Shards is how many objects each shard had when the scan saw them.
	Shards map[string]int
	// Took is how long the scan took.
	Took time.Duration
}

// ResourceState is whether a request for all objects of a resource succeeds.
type ResourceState struct {
	GVR schema.GroupVersionResource
	// Namespace is that of the request, or empty for all namespaces.
	Namespace string
	// Verb is list or watch, or serve if the API server does not know the resource.
	Verb string
	// Err is why the request fails, or nil if it succeeds again or the sharder has ended.
	Err error
}

// Unowned is an object that no living shard owns.
type Unowned struct {
	Object api.ObjectRef
	Why    string
	Since  time.Time // when this sharder has seen it first
}

// HeldBack is an object that may be why shards crash.
type HeldBack struct {
	Object  api.ObjectRef
	Crashes int       // of its owners, one after another
	Shard   string    // the last of them
	Until   time.Time // by the clock of this process; sooner, if the object is changed
}

// Undone is an object that the ring's labels or annotations are removed from again and again.
type Undone struct {
	Object api.ObjectRef
	// Times is how often this sharder has set them, including the first assignment.
	Times int
	// Pause is how long the sharder waits before it sets them again.
	Pause time.Duration
}

// Overdue is an object that its shard should have let go of.
type Overdue struct {
	Object api.ObjectRef
	Shard  string
	Since  time.Time
}
