package sharder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Explanation shows where an object is, where it belongs, and what a sharder does about it.
type Explanation struct {
	Object api.ObjectRef
	// Root is the object itself, or the root of a child. All fields but Label, Verb and Why are
	// about the root.
	Root api.ObjectRef
	// Label is the shard whose label the object carries, if any.
	Label string
	// Draining is true if the root carries the drain label.
	Draining bool
	// Owner is the shard in the root's record, or empty without a valid record. Free means that the
	// owner has let go of the root.
	Owner string
	Free  bool
	// Left are the shards that have yet to confirm that they do not work on the root.
	Left []string
	// Target is the root's owner on the ring.
	Target string
	// Verb is what must be done: keep, await, hold, reread, assign, drain, withdraw, restore,
	// probe, seal or gather; for a child: keep, follow or hold.
	Verb string
	// Why gives the reason in words.
	Why string
}

// Explain explains why an object is where it is. It changes nothing, and works whether or not this
// sharder runs. A sharder that does not run learns of a shard's death only from its Lease.
func (s *Sharder) Explain(ctx context.Context, object api.ObjectRef) (Explanation, error) {
	e, p, err := s.observe(ctx)
	if err != nil {
		return Explanation{}, err
	}
	index := slices.IndexFunc(e.objects.graph.All,
		func(r protocol.Resource) bool { return r.GVR.GroupResource() == object.GVR.GroupResource() })
	if index < 0 {
		return Explanation{}, fmt.Errorf("sharder: Resource %s is not in the ring", object.GVR.GroupResource())
	}
	at := protocol.Ref{Resource: index, Namespace: object.Namespace, Name: object.Name}
	o, err := e.objects.of(index, at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	if err != nil {
		return Explanation{}, fmt.Errorf("sharder: %w", e.objects.failed("get", at, err))
	}
	if e.objects.isRoot(index) {
		return e.explain(ctx, p, at, o)
	}
	c, ok := e.objects.childOf(index, o)
	if !ok {
		return Explanation{
			Object: object, Label: e.objects.keys.ShardOf(o), Verb: string(protocol.Keep),
			Why: "no object of the ring controls it",
		}, nil
	}
	root, err := e.objects.of(c.Root.Resource, c.Root.Namespace).Get(ctx, c.Root.Name, metav1.GetOptions{})
	switch {
	case e.objects.absent(c.Root, err), err == nil && root.UID != c.RootUID:
		return Explanation{
			Object: object, Root: e.objects.ref(c.Root), Label: c.Label, Verb: string(protocol.Keep),
			Why: "the object that controls it is gone",
		}, nil
	case err != nil:
		return Explanation{}, fmt.Errorf("sharder: %w", e.objects.failed("get", c.Root, err))
	}
	x, err := e.explain(ctx, p, c.Root, root)
	x.Object, x.Label = object, c.Label
	switch {
	case x.Owner == "" || x.Free:
		x.Verb, x.Why = string(protocol.Hold), "its root is with no shard: "+x.Why
	case x.Owner == c.Label:
		x.Verb, x.Why = string(protocol.Keep), "it is with its root: "+x.Why
	default:
		x.Verb, x.Why = string(protocol.Follow), fmt.Sprintf("its root is with shard %q: %s", x.Owner, x.Why)
	}
	return x, err
}

// explain explains why a root is where it is.
func (s *session) explain(ctx context.Context, p *membership.Plan, at protocol.Ref,
	o *metav1.PartialObjectMetadata,
) (Explanation, error) {
	index := at.Resource
	v, ok := s.objects.rootOf(index, o)
	x := Explanation{Object: s.objects.ref(at), Root: s.objects.ref(at), Label: v.Label, Draining: v.Drain}
	if v.Recorded {
		x.Owner, x.Free = v.Record.Shard, v.Record.State == protocol.StateFree
		for _, t := range v.Record.Left {
			x.Left = append(x.Left, t.Shard)
		}
	}
	if !ok || !s.objects.selects(index, o) {
		x.Verb, x.Why = string(protocol.Keep), "it is not selected by the ring"
		return x, nil
	}
	if p == nil {
		x.Verb, x.Why = string(protocol.Hold), "there is no shard"
		return x, nil
	}
	sit, d, err := s.planner.Shards.Resolve(ctx, v, p)
	if err != nil {
		return Explanation{}, fmt.Errorf("sharder: %w", err)
	}
	x.Target, x.Verb, x.Why = p.Target(v.Hash).Shard, string(d.Verb), d.Why()
	if d.Verb == protocol.Assign && sit.HeldBack() {
		x.Verb, x.Why = string(protocol.Hold), sit.Vacancy()
	}
	return x, nil
}

// Forecast is what a sharder would do now.
type Forecast struct {
	// Members are the shards among which objects are distributed, sorted.
	Members []string
	// Objects is the number of objects, without children, which go with their roots.
	Objects int
	// Moves are the numbers of objects by the shard in their label and the shard that they would go
	// to, sorted. Objects that stay have equal ends. From is empty for objects without a shard.
	Moves []Move
}

// Move is how many objects go from one shard to another.
type Move struct {
	From, To string
	Objects  int
}

// Plan reads all objects, page by page, and returns which of them a sharder would move with the
// present shards. It changes nothing, and works whether or not this sharder runs. It returns an
// error if there is no shard.
func (s *Sharder) Plan(ctx context.Context) (Forecast, error) {
	e, p, err := s.observe(ctx)
	if err != nil {
		return Forecast{}, err
	}
	if p == nil {
		return Forecast{}, errors.New("sharder: there is no shard")
	}
	f := Forecast{Members: p.Members.Names()}
	moves := map[Move]int{}
	for i := range e.objects.roots {
		for _, src := range e.objects.sources(i, e.objects.roots[i].Selector) {
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if v, ok := e.objects.rootOf(i, o); ok {
					f.Objects++
					moves[Move{From: v.Label, To: p.Target(v.Hash).Shard}]++
				}
				return ctx.Err() == nil
			})
			if err != nil {
				return Forecast{}, fmt.Errorf("sharder: %w", err)
			}
		}
	}
	for m, n := range moves {
		m.Objects = n
		f.Moves = append(f.Moves, m)
	}
	slices.SortFunc(f.Moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return f, nil
}

// observe returns the running session, or one made from the API server's state. The plan is nil if
// there are no members.
func (s *Sharder) observe(ctx context.Context) (*session, *membership.Plan, error) {
	if running := s.session.Load(); running != nil {
		return running, running.planner.Current(), nil
	}
	tracker, err := s.config.newTracker() // that of Run may be in use
	if err != nil {
		return nil, nil, err
	}
	e, err := s.newSession(tracker, newResourceTroubles(func(ResourceState) {})) // Run reports its own troubles
	if err == nil {
		err = e.objects.unserved
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := e.planner.Observe(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("sharder: %w", err)
	}
	return e, p, nil
}

// HistoryName returns the name of the ConfigMap, in the namespace of the Leases, with the ring's
// history: the memberships under which objects may have been assigned. If it is deleted or edited,
// the sharder cannot tell which shards may work on an object whose labels and record were lost.
func HistoryName(ring string) string { return membership.HistoryName(ring) }

// Ownership is the content of an object's owner record. It is for programs that show a ring to
// people; only a shard can decide, with its caches and its lease, whether work may begin.
type Ownership struct {
	// Shard is the owner, and Epoch the one in which it may work on the object.
	Shard string
	Epoch shardlease.Epoch
	// Free means that the owner has let go of the object, so that it belongs to no shard.
	Free bool
	// Left are the shards that have yet to confirm that they do not work on the object.
	Left []string
	// Successor is the shard to which the owner hands the object over when its work has ended. It
	// is empty if the sharder assigns the object.
	Successor string
}

// OwnershipOf returns the content of the owner record of an object of this resource. ok is false if
// the object has no record, or an invalid one, such as a copy of another object's.
func OwnershipOf(ring string, resource schema.GroupResource, o metav1.Object) (_ Ownership, ok bool) {
	keys := protocol.KeysOf(ring).Of(resource)
	r, ok := keys.RecordOf(o)
	if !ok {
		return Ownership{}, false
	}
	owner := Ownership{
		Shard: r.Shard, Epoch: shardlease.Epoch{LeaseUID: r.LeaseUID, Number: r.Epoch},
		Free: r.State == protocol.StateFree,
	}
	for _, t := range r.Left {
		owner.Left = append(owner.Left, t.Shard)
	}
	if next := keys.SuccessorOf(o, r); next != nil {
		owner.Successor = next.Shard
	}
	return owner, true
}

// RingOf returns the ring on which a sharder places shards of these weights, by name, from 0 to
// [shardlease.MaxWeight]. Those of weight 0 have no place on it. It returns an error if there are too many.
func RingOf(weights map[string]int) (*ring.Ring, error) { return membership.RingOf(weights) }
