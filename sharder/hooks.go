package sharder

import (
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	// OnTaken is called with a shard that has proved dead: its Lease was taken.
	OnTaken func(shard string)
	// OnCollected is called with a dead shard whose Lease was deleted.
	OnCollected func(shard string)
	// OnStorm is called with shards that expired together, and so are given more time.
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
	// Verb is the purpose: assign, drain, withdraw, restore, probe, seal, annul or gather; for a
	// child, follow.
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
	// Namespace is that of the request; empty: all.
	Namespace string
	// Verb is list or watch, or serve if the API server does not know the resource.
	Verb string
	// Err is why the request fails; nil: it succeeds again, or the sharder has ended.
	Err error
}

// Overdue is an object that its shard should have let go of.
type Overdue struct {
	Object api.ObjectRef
	Shard  string
	Since  time.Time
}
