package sharder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var (
	// errMoving means that the goroutine that moves families finishes the item.
	errMoving = errors.New("its children are moved first")
	// errReplanned means that the object must be decided on again.
	errReplanned = errors.New("it may belong to another shard now")
)

// move is a root that no shard works on, on its way to another shard. Its children move first.
type move struct {
	item     *item
	root     protocol.Root
	decision protocol.Decision
	origin   protocol.Origin
	plan     *membership.Plan // of the decision
	current  bool             // root was read when no other move of it was under way

	// The first of the children that move has the root protected, and the others wait for it.
	protecting atomic.Bool
	protected  chan struct{}
	unfit      error // why the root could not be protected; set before protected is closed

	mu    sync.Mutex
	floor map[string]string // guarded by mu: the greatest version of its moved children, by resource
	err   error             // guarded by mu: why a child may not have moved
}

// reach records that a child is with its new shard, at this version or an earlier one.
func (m *move) reach(resource, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.floor == nil {
		m.floor = map[string]string{}
	}
	m.floor[resource] = protocol.Later(m.floor[resource], version) // client-go's fakes have none
}

// failed reports whether a child may not have moved.
func (m *move) failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err != nil
}

func (m *move) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// familyMover moves roots together with their children.
type familyMover struct {
	objects  *objects
	planner  *membership.Planner
	families *families
	assigner *assigner
	version  string // of the first list of Leases
	first    bool   // there was no sharder before
}

// run moves families in batches until ctx ends.
func (f *familyMover) run(ctx context.Context) {
	for {
		all := f.families.take(ctx)
		if ctx.Err() != nil {
			return
		}
		p := f.planner.Current()
		current := make([]*move, 0, len(all))
		for _, m := range all {
			if m.plan == p {
				current = append(current, m)
			} else {
				f.assigner.finish(ctx, m.item, false, errReplanned)
			}
		}
		if len(current) == 0 {
			continue
		}
		f.moveBatch(ctx, p, batchOf(current, func(m *move) bool {
			return f.families.inDoubt(m.root.Ref) || f.assigner.unsurveyed(m.root)
		}))
	}
}

// moveBatch moves the children of a batch of roots to the new shards of the roots, and then the
// roots. It holds only a page of children in memory at a time.
func (f *familyMover) moveBatch(ctx context.Context, p *membership.Plan, b batch) {
	hands := make(chan struct{}, f.objects.config.Concurrency)
	var busy sync.WaitGroup
	begin := func(job func()) {
		hands <- struct{}{}
		busy.Go(func() {
			defer func() { <-hands }()
			job()
		})
	}
	roots := map[protocol.Ref]*move{}
	for _, m := range b.moves {
		roots[m.root.Ref] = m
		m.protected = make(chan struct{})
	}
	lists := f.listChildren(ctx, p, b, func(c protocol.Child) {
		if m := roots[c.Root]; m != nil && m.root.UID == c.RootUID {
			begin(func() {
				if !m.failed() { // or its root waits anyhow, and others would wait for its children
					f.bring(ctx, m, c)
				}
			})
		}
	})
	busy.Wait()
	for _, m := range b.moves {
		begin(func() { f.settleRoot(ctx, m, b, lists) })
	}
	busy.Wait()
}

// childList is the outcome of a list of the children at one place.
type childList struct {
	version string // empty if they have none
	err     error
}

// listChildren calls found with all children of a batch of roots, and with others. The first list
// of a place has no selector: it shows what shards were assigned before this session.
// listChildren returns the outcome for each place.
func (f *familyMover) listChildren(ctx context.Context, p *membership.Plan, b batch,
	found func(protocol.Child),
) map[place]childList {
	lists := map[place]childList{}
	namespaces := map[place][]string{} // of the roots, by the places of their children
	for _, m := range b.moves {
		for _, i := range f.objects.graph.ChildResources[m.root.Resource] {
			at := f.objects.placeOf(i, m.root.Namespace)
			if !slices.Contains(namespaces[at], m.root.Namespace) {
				namespaces[at] = append(namespaces[at], m.root.Namespace)
			}
		}
	}
	selector := labels.Everything()
	if !b.any {
		selector = movable(p.Members, f.objects.keys, b.sources...)
	}
	for i := len(f.objects.roots); i < len(f.objects.graph.All); i++ {
		for _, src := range f.objects.sources(i, selector) {
			at := place{i, src.namespace}
			of := namespaces[at]
			survey := b.any && !f.families.knows(at)
			switch {
			case len(of) == 0:
				continue
			case len(of) == 1 && !survey: // the empty namespace means all
				src.namespace, src.client = of[0], f.objects.of(i, of[0])
			}
			version, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if c, ok := f.objects.childOf(i, o); ok {
					f.families.note(holding{c.Label, i}, c.Version)
					found(c)
				}
				return ctx.Err() == nil
			})
			lists[at] = childList{version, err}
			if survey && err == nil {
				f.families.complete(at)
			}
		}
	}
	return lists
}

// contested reports whether an earlier patch, by the former sharder or with an unknown outcome, may
// still be carried out on this version of a root without an owner, or of one of its children. The
// network may delay it for any time.
func (f *familyMover) contested(m *move, version string) bool {
	if m.decision.Verb != protocol.Assign || f.first {
		return false
	}
	order, known := protocol.CompareVersions(version, f.version) // client-go's fakes have no versions
	return known && order <= 0 || f.families.inDoubt(m.root.Ref)
}

// protect makes sure, once, that the root has no owner while its children move, because its shard
// would lose sight of them. A contested root gets another version, so that no earlier patch can
// assign it. The drain label of a root without an owner means nothing, and the assignment removes
// it. A root that came from a list or an event is read, because these may be late, and this session
// may have assigned the root since.
func (f *familyMover) protect(ctx context.Context, m *move) error {
	if m.protecting.Swap(true) {
		<-m.protected
		return m.unfit
	}
	defer close(m.protected)
	switch r := &m.root; {
	case f.contested(m, r.Version):
		var version string
		version, m.unfit = f.objects.send(ctx, r.Ref, protocol.Protect, r.Label,
			f.objects.marks[r.Resource].MergePatch(r.UID, r.Version, r.Label, !r.Drain, nil))
		if m.unfit == nil {
			r.Version = version
		}
	case !m.current:
		o, err := f.objects.get(ctx, r.Ref)
		if m.unfit = err; err == nil && (o == nil || o.UID != r.UID || o.ResourceVersion != r.Version) {
			m.unfit = errReplanned
		}
	}
	return m.unfit
}

// bring gives a child to the new shard of its root. A contested child that is there already gets
// the drain label first, and loses it again, so that a patch that is still on its way finds another
// version. The child keeps the shard label meanwhile, because that shard may be at work on the
// root, if a user has removed the record, and must not lose sight of the child.
func (f *familyMover) bring(ctx context.Context, m *move, c protocol.Child) {
	resource, contended := f.objects.graph.All[c.Resource].GVR.GroupResource().String(), errContended
	for range attempts {
		label := m.decision.Label
		there := c.Label == label && !c.Drain
		if there && !f.contested(m, c.Version) {
			m.reach(resource, c.Version)
			return
		}
		if err := f.protect(ctx, m); err != nil {
			m.fail(err)
			return
		}
		version, err := f.objects.send(ctx, c.Ref, protocol.Follow, label,
			f.objects.keys.MergePatch(c.UID, c.Version, label, there, nil))
		switch {
		case err == nil && there:
			c.Drain, c.Version = true, version
			continue
		case err == nil:
			f.families.note(holding{label, c.Resource}, version)
			m.reach(resource, version)
			return
		case f.objects.absent(c.Ref, err):
			return
		case !protocol.IsOutdated(err):
			m.fail(err)
			return
		}
		contended = fmt.Errorf("%w: %w", errContended, err)
		o, err := f.objects.get(ctx, c.Ref)
		if err != nil {
			m.fail(err)
			return
		}
		if o == nil {
			return
		}
		now, ok := f.objects.childOf(c.Resource, o)
		if !ok || now.Root != c.Root || now.RootUID != c.RootUID {
			return
		}
		c = now
	}
	m.fail(contended)
}

// settleRoot assigns a root whose children are where they belong. lists are the lists of children.
func (f *familyMover) settleRoot(ctx context.Context, m *move, b batch, lists map[place]childList) {
	var err error
	for _, i := range f.objects.graph.ChildResources[m.root.Resource] {
		err = cmp.Or(err, lists[f.objects.placeOf(i, m.root.Namespace)].err)
	}
	switch {
	case err != nil:
	case m.err != nil:
		err = m.err
	case f.planner.Current() != m.plan:
		err = errReplanned
	default:
		r := *m.decision.Record
		r.ChildFloor, r.Childless = map[string]string{}, map[string]string{}
		for _, i := range f.objects.graph.ChildResources[m.root.Resource] {
			name := f.objects.graph.All[i].GVR.GroupResource().String()
			r.ChildFloor[name] = m.floor[name]
			switch version := lists[f.objects.placeOf(i, m.root.Namespace)].version; {
			case !m.root.Recorded && !b.any: // the list did not show children that the shard already has
				r.ChildFloor[name] = protocol.Later(m.floor[name], f.families.floor(holding{m.decision.Label, i}))
			case m.floor[name] == "" && version != "":
				r.Childless[name] = version
			}
		}
		m.decision.Record = &r
		err = f.assigner.patch(ctx, m.root, m.decision)
	}
	if f.objects.absent(m.root.Ref, err) {
		f.assigner.finish(ctx, m.item, true, nil)
		return
	}
	if err != nil {
		f.families.doubt(m.root.Ref)
	} else {
		f.families.mended(m.root.Ref)
		m.item.wrote = true
	}
	if protocol.IsOutdated(err) { // nothing to log
		err = errReplanned
	}
	f.assigner.finish(ctx, m.item, m.decision.Placed(), err)
}

// batch is a set of moves whose children one list shows.
type batch struct {
	moves []*move
	// any means that the children may be with any shard. Otherwise they are with one of the
	// sources, or without a member's label.
	any     bool
	sources []string
}

// batchOf returns the batch of moves for the next list, which is a single one, however many shards
// the children are with.
func batchOf(all []*move, anywhere func(*move) bool) batch {
	b := batch{moves: all}
	for _, m := range all {
		b.any = b.any || m.origin.Any || anywhere(m)
		if _, member := m.plan.Members.Member(m.origin.Shard); member && !slices.Contains(b.sources, m.origin.Shard) {
			b.sources = append(b.sources, m.origin.Shard)
		}
	}
	return b
}
