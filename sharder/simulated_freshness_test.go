package sharder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// TestSimulatedReturns is TestSimulatedFamilies with a replica that leaves soon, again and again. So
// roots come back to shards whose caches have not seen them go. What they see of the children then
// is judged.
func TestSimulatedReturns(t *testing.T) {
	s := sharding()
	s.MinReplicas = 3
	s.Kinds = []sim.Kind{sim.Latency, sim.WatchLag, sim.LostResponses, sim.Interference}
	s.Interfere = populate
	s.Rule = func(w *sim.World) sim.Rule {
		w.State.Store(slowWatches{}, true)
		time.AfterFunc(time.Second, func() { populate(w, rand.New(rand.NewPCG(1, 1))) })
		return oneFamilyOneShard(w)
	}
	s.Main = func(ctx context.Context, p *sim.Process) {
		const visits = 3 // with more, the sharder would let it wait
		for range visits {
			if identity(p.Name) == "c" {
				wait(ctx, p, 10*time.Second)
				visit(ctx, p)
			}
		}
		runReplica(ctx, p)
	}
	sim.Prove(t, s, schedules(t, 25))
}

// slowWatches is the key of a world whose shards see children late.
type slowWatches struct{}

// visit runs a replica for some seconds.
func visit(ctx context.Context, p *sim.Process) {
	stay, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		wait(stay, p, time.Duration(5+p.Clock.Now().Wall.UnixNano()%5)*time.Second)
		leave()
	}()
	runReplica(stay, p)
}

// wait waits by the clock of a process.
func wait(ctx context.Context, p *sim.Process, d time.Duration) {
	timer := p.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// freshness judges what work sees of its root and of the children when it begins. It must see what
// the work of other shards had written before the root was assigned. A write that comes later is a
// matter of another rule.
type freshness struct {
	mu       sync.Mutex
	changes  int                 // that were seen
	assigned map[types.UID]int   // by root, the change that assigned it to its present owner
	writes   map[types.UID]write // of work, the last one to each root and child
}

// write is a change that work has made.
type write struct {
	root    types.UID
	object  string // kind and name
	by      string // client
	change  int
	version string
	deleted bool
}

func newFreshness() *freshness {
	return &freshness{assigned: map[types.UID]int{}, writes: map[types.UID]write{}}
}

// see records a change of an object.
func (f *freshness) see(c apisim.Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes++
	o := c.After
	if o == nil {
		o = c.Before
	}
	root := o.GetUID()
	if o.GetKind() == "Pod" {
		controller := metav1.GetControllerOf(o)
		if controller == nil {
			return
		}
		root = controller.UID
	} else if owner := ownerOf(c.After); c.Client != user && owner != "" && owner != ownerOf(c.Before) {
		f.assigned[root] = f.changes
	}
	deleted := c.After == nil
	if c.Client == user || c.Client == "" || !deleted && by(c.Before) == by(c.After) {
		return
	}
	f.writes[o.GetUID()] = write{
		root, o.GetKind() + " " + o.GetName(), c.Client, f.changes, o.GetResourceVersion(), deleted,
	}
}

// ownerOf returns the shard that owns a root, with its epoch; empty: none.
func ownerOf(o *apisim.Object) string {
	var r struct {
		Shard, State string
		Epoch        int
	}
	if o == nil || json.Unmarshal([]byte(o.GetAnnotations()[recordAnnotation]), &r) != nil || r.State != "owned" {
		return ""
	}
	return fmt.Sprint(r.Shard, "/", r.Epoch)
}

// staleness says what work that begins in p should see of a root and of its children; empty: it sees
// everything. shown has the versions that it sees.
func (f *freshness) staleness(root types.UID, p *sim.Process, shown map[types.UID]string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, w := range f.writes {
		if w.root != root || identity(w.by) == identity(p.Name) || w.change > f.assigned[root] {
			continue
		}
		version, exists := shown[uid]
		if w.deleted && exists {
			return fmt.Sprintf("still sees %s, which %s has deleted", w.object, w.by)
		}
		order, err := resourceversion.CompareResourceVersion(version, w.version)
		if exists && err == nil && order < 0 { // one that is not shown is a matter of births
			return fmt.Sprintf("sees %s at version %s, and %s has written version %s", w.object, version, w.by,
				w.version)
		}
	}
	return ""
}

// checkFresh fails unless work that begins in p sees what it must.
func checkFresh(ctx context.Context, p *sim.Process, root types.UID, shown map[types.UID]string) {
	wrong := birthsOf(p.World()).fresh.staleness(root, p, shown)
	term, _ := shardlease.TermFrom(ctx)
	if wrong != "" && term.Err() == nil { // the process has not stopped since work began
		p.Fail("begins stale to work on %s: %s", root, wrong)
	}
}
