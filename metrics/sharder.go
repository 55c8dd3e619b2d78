package metrics

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Replica registers all parts of a sharded replica and sets their hooks, c.Hooks. Call it before
// replica.New. Hooks that you set later must call these. The error names the first metric that cannot
// be registered.
func Replica(registry prometheus.Registerer, c *replica.Config) error {
	lease, leaseErr := ShardLease(registry)
	election, electionErr := LeaderElection(registry)
	ownership, shardErr := Shard(registry)
	distribution, err := newDistribution(registry)
	stopped := election.OnStoppedLeading
	election.OnStoppedLeading = func(term leaderelection.Term, err error) {
		stopped(term, err)
		distribution.forget()
	}
	c.Hooks = replica.Hooks{Lease: lease, Election: election, Shard: ownership, Sharder: distribution.hooks()}
	return cmp.Or(leaseErr, electionErr, shardErr, err) // most often all for the same reason
}

// Sharder registers the metrics of a sharder. bellwether_sharder_settle_duration_seconds is the time of a
// handover or failover of shards, from a change of the membership until every object is with its owner.
func Sharder(registry prometheus.Registerer) (sharder.Hooks, error) {
	d, err := newDistribution(registry)
	return d.hooks(), err
}

// distribution is what a sharder reports.
type distribution struct {
	members, objects, placed, unsettled                                   prometheus.Gauge
	shards, troubled                                                      *prometheus.GaugeVec
	settle, scans, throttled                                              prometheus.Histogram
	patches                                                               *prometheus.CounterVec
	took                                                                  *prometheus.HistogramVec
	unplaced, overdue, unowned, undone, heldBack, taken, collected, storm prometheus.Counter

	mu      sync.Mutex
	changed time.Time // when the membership last changed; zero if the ring is settled
	scanned time.Time // when the last scan ended
	astray  int       // displaced objects that it found
}

func newDistribution(registry prometheus.Registerer) (*distribution, error) {
	f := &factory{registry: registry, subsystem: "sharder"}
	return &distribution{
		members: f.gauge("members", "Shards among which objects are distributed."),
		objects: f.gauge("objects", "Objects that the last scan found."),
		placed: f.gauge("placed_objects", "Objects of the last scan that are with their owner, and with no other "+
			"shard."),
		unsettled: f.gauge("unsettled", "1 from a change of the membership until every object is with its owner."),
		shards:    f.gauges("shard_objects", "Objects that each shard had at the last scan.", "shard"),
		troubled: f.gauges("resource_trouble", "1 while objects of a resource cannot be listed or watched, or it is "+
			"not served.", "resource", "namespace", "verb"),
		settle: f.histogram("settle_duration_seconds",
			"Time from a change of the membership until every object was with its owner.", ofDrains),
		scans: f.histogram("scan_duration_seconds", "How long scans of all objects took.", ofFences),
		throttled: f.histogram("throttled_seconds", "Time that requests waited for the client's own rate limit.",
			ofRequests),
		patches: f.counters("patches_total", "Attempts to change an object's labels and record, by what for. "+
			"Conflicts are nothing to worry about.", "verb", "result"),
		took: f.histograms("patch_duration_seconds", "How long these took.", ofRequests, "verb"),
		unplaced: f.counter("unplaced_object_seconds_total",
			"Time that objects were not with their owner, added up, as seen by scans."),
		overdue: f.counter("overdue_total", "Objects that a living shard does not let go of."),
		unowned: f.counter("unowned_total", "Objects that no living shard has owned for long."),
		heldBack: f.counter("held_back_total",
			"Times that an object was held back, because shards that had it have crashed one after another."),
		undone: f.counter("undone_total", "How often the sharder has waited before it set the labels of an object "+
			"again, because others remove them."),
		taken:     f.counter("taken_total", "Shards that have proved dead."),
		collected: f.counter("collected_total", "Leases of dead shards that were deleted."),
		storm:     f.counter("storms_total", "How often at least half of the shards have expired together."),
	}, f.err()
}

func (d *distribution) hooks() sharder.Hooks {
	return sharder.Hooks{
		OnMembership: func(members []string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.members.Set(float64(len(members)))
			d.unsettled.Set(1)
			if d.changed.IsZero() {
				d.changed = time.Now()
			}
		},
		OnSettled: func([]string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.unsettled.Set(0)
			if !d.changed.IsZero() {
				d.settle.Observe(time.Since(d.changed).Seconds())
				d.changed = time.Time{}
			}
		},
		OnScan: d.scan,
		OnPatch: func(p sharder.Patch) {
			outcome := result(p.Err)
			if apierrors.IsConflict(p.Err) {
				outcome = "conflict"
			}
			d.patches.WithLabelValues(p.Verb, outcome).Inc()
			d.took.WithLabelValues(p.Verb).Observe(p.Latency.Seconds())
		},
		OnOverdue:   func(sharder.Overdue) { d.overdue.Inc() },
		OnUnowned:   func(sharder.Unowned) { d.unowned.Inc() },
		OnHeldBack:  func(sharder.HeldBack) { d.heldBack.Inc() },
		OnUndone:    func(sharder.Undone) { d.undone.Inc() },
		OnTaken:     func(string) { d.taken.Inc() },
		OnCollected: func(string) { d.collected.Inc() },
		OnStorm:     func([]string) { d.storm.Inc() },
		OnResource: func(s sharder.ResourceState) {
			setBool(d.troubled.WithLabelValues(s.GVR.GroupResource().String(), s.Namespace, s.Verb), s.Err != nil)
		},
		OnThrottled: func(wait time.Duration) { d.throttled.Observe(wait.Seconds()) },
	}
}

func (d *distribution) scan(s sharder.Scan) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scans.Observe(s.Took.Seconds())
	d.objects.Set(float64(s.Objects))
	d.placed.Set(float64(s.Placed))
	d.shards.Reset() // those that are gone
	for shard, objects := range s.Shards {
		d.shards.WithLabelValues(shard).Set(float64(objects))
	}
	if !d.scanned.IsZero() {
		d.unplaced.Add(float64(d.astray) * time.Since(d.scanned).Seconds())
	}
	d.scanned, d.astray = time.Now(), s.Objects-s.Placed
}

// forget resets the gauges when another replica is the sharder.
func (d *distribution) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range []prometheus.Gauge{d.members, d.objects, d.placed, d.unsettled} {
		g.Set(0)
	}
	d.shards.Reset()
	d.changed, d.scanned, d.astray = time.Time{}, time.Time{}, 0
}

// Shard registers the metrics of a shard that releases objects.
func Shard(registry prometheus.Registerer) (shard.Hooks, error) {
	f := &factory{registry: registry, subsystem: "shard"}
	drains := f.counters("drains_total", "Attempts to let go of an object.", "result")
	age := f.histogram("drain_duration_seconds", "Time from a drain until the shard let the object go.", ofDrains)
	bounces := f.counters("bounces_total", "Attempts to send back an object that has the label of this shard by "+
		"mistake.", "result")
	refusals := f.counters("refusals_total", "Work that was refused: the object is another shard's, or is not proved "+
		"to be this one's yet.", "reason")
	// Even before the first one, because Prometheus shows increases of existing series only.
	for _, outcome := range []string{"ok", "error"} {
		drains.WithLabelValues(outcome)
		bounces.WithLabelValues(outcome)
	}
	for _, reason := range []string{"not_mine", "not_yet"} {
		refusals.WithLabelValues(reason)
	}
	return shard.Hooks{
		OnDrained: func(_ api.ObjectRef, took time.Duration, err error) {
			drains.WithLabelValues(result(err)).Inc()
			if err == nil {
				age.Observe(took.Seconds())
			}
		},
		OnBounced: func(_ api.ObjectRef, err error) { bounces.WithLabelValues(result(err)).Inc() },
		OnRefused: func(_ api.ObjectRef, err error) {
			reason := "not_yet"
			if errors.Is(err, shard.ErrNotMine) {
				reason = "not_mine"
			}
			refusals.WithLabelValues(reason).Inc()
		},
	}, f.err()
}

// ShardLease registers the metrics of a shard lease. A lost term ends the process.
func ShardLease(registry prometheus.Registerer) (shardlease.Hooks, error) {
	f := &factory{registry: registry, subsystem: "shardlease"}
	held := f.gauge("held", "1 while this process is a shard.")
	waiting := f.gauge("waiting", "1 while this process waits for another one of its identity to end.")
	terms := f.counter("terms_total", "Terms that have begun.")
	renewed := renewals(f)
	return shardlease.Hooks{
		OnHeld: func(shardlease.Epoch) {
			held.Set(1)
			waiting.Set(0)
			terms.Inc()
			renewed.last.SetToCurrentTime()
		},
		OnReleased: func(shardlease.Epoch) { held.Set(0) },
		OnWaiting:  func(shardlease.HolderInfo) { waiting.Set(1) },
		OnRenewal:  renewed.observe,
		OnFailing:  failing(f, "follow, take or renew the Lease"),
	}, f.err()
}
