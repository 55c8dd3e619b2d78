package sharder

import (
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Hooks are functions that a [Sharder] calls when something happens, for metrics and tests; each may be nil. They are called synchronously,
// from several goroutines, and have to return quickly.
type Hooks struct {
	// OnMembership is told of the shards among which objects are distributed from now on, sorted.
	OnMembership func(members []string)
	// OnPatch is told of each attempt to change an object's labels and record.
	OnPatch func(Patch)
	// OnScan is told what a scan of all objects has found.
	OnScan func(Scan)
	// OnSettled is told when every object is with its owner under a membership that has changed.
	OnSettled func(members []string)
	// OnOverdue is told once of an object whose shard has not let go of it for Config.OverdueAfter. Its shard is alive, but its work on the
	// object does not end, or it does not see the object.
	OnOverdue func(Overdue)
	// OnTaken is told of a shard that has proved dead: its Lease was taken.
	OnTaken func(shard string)
	// OnCollected is told of a dead shard whose Lease was deleted.
	OnCollected func(shard string)
	// OnStorm is told of shards that have expired together, and so are given more time.
	OnStorm func(shards []string)
	// OnResource is told when the objects of a resource cannot be listed or watched, or it is not
	// served, and why; and when it is over.
	OnResource func(ResourceState)
	// OnThrottled is told of each request that the client has held back on this side, by its own rate limit, and for how long.
	OnThrottled func(wait time.Duration)
}

// Patch is one attempt to change an object.
type Patch struct {
	Object api.ObjectRef
	// Verb is what it is for: assign, drain, withdraw, restore, probe, seal, annul or gather; for a
	// child, follow.
	Verb string
	// Shard is whose label the object has afterwards.
	Shard string
	// Latency is how long it took.
	Latency time.Duration
	// Err is nil if it was carried out. A conflict is nothing to worry about: somebody else has changed the object meanwhile.
	Err error
}

// Scan is what a scan of all objects has found.
type Scan struct {
	// Objects is how many there are, and Placed how many of them are with their owner on the ring and in nobody else's hands, counting
	// those that the scan has put there.
	Objects, Placed int
	// Shards is how many objects each shard had when the scan came by.
	Shards map[string]int
	// Took is how long the scan took.
	Took time.Duration
}

// ResourceState is whether a request about all objects of a resource succeeds.
type ResourceState struct {
	GVR schema.GroupVersionResource
	// Namespace is where; empty: in all of them.
	Namespace string
	// Verb is list or watch, or serve where the API server does not know the resource.
	Verb string
	// Err is why it does not succeed; nil: it does again, or the sharder has ended.
	Err error
}

// Overdue is an object that should have been let go.
type Overdue struct {
	Object api.ObjectRef
	Shard  string
	Since  time.Time
}
