package sharder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// moveFamilies moves families in batches until ctx ends.
func (s *session) moveFamilies(ctx context.Context) {
	for {
		all := s.moves.take(ctx)
		if ctx.Err() != nil {
			return
		}
		p := s.plan.Load()
		current := make([]*move, 0, len(all))
		for _, m := range all {
			if m.plan == p {
				current = append(current, m)
			} else {
				s.finish(ctx, m.item, false, errReplanned)
			}
		}
		if len(current) == 0 {
			continue
		}
		s.moveBatch(ctx, p, batchOf(current, func(m *move) bool {
			return s.moves.inDoubt(m.root.Ref) || s.unsurveyed(m.root)
		}))
	}
}

// unsurveyed reports whether children of the root may be with any shard, unknown to this session.
func (s *session) unsurveyed(r protocol.Root) bool {
	return slices.ContainsFunc(s.graph.ChildResources[r.Resource], func(i int) bool {
		return !s.floors.knows(s.placeOf(i, r.Namespace))
	})
}

// moveBatch moves the children of a batch of roots to the new shards of the roots, and then the
// roots. It holds only a page of children in memory at a time.
func (s *session) moveBatch(ctx context.Context, p *plan, b batch) {
	hands := make(chan struct{}, s.config.Concurrency)
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
	lists := s.listChildren(ctx, p, b, func(c protocol.Child) {
		if m := roots[c.Root]; m != nil && m.root.UID == c.RootUID {
			begin(func() {
				if !m.failed() { // or its root waits anyhow, and others would wait for its children
					s.bring(ctx, m, c)
				}
			})
		}
	})
	busy.Wait()
	for _, m := range b.moves {
		begin(func() { s.settleRoot(ctx, m, b, lists) })
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
func (s *session) listChildren(ctx context.Context, p *plan, b batch,
	found func(protocol.Child),
) map[place]childList {
	lists := map[place]childList{}
	namespaces := map[place][]string{} // of the roots, by the places of their children
	for _, m := range b.moves {
		for _, i := range s.graph.ChildResources[m.root.Resource] {
			at := s.placeOf(i, m.root.Namespace)
			if !slices.Contains(namespaces[at], m.root.Namespace) {
				namespaces[at] = append(namespaces[at], m.root.Namespace)
			}
		}
	}
	selector := labels.Everything()
	if !b.any {
		selector = p.children(s.keys, b.sources...)
	}
	for i := len(s.resources); i < len(s.graph.All); i++ {
		for _, src := range s.sources(i, selector) {
			at := place{i, src.namespace}
			of := namespaces[at]
			survey := b.any && !s.floors.knows(at)
			switch {
			case len(of) == 0:
				continue
			case len(of) == 1 && !survey: // the empty namespace means all
				src.namespace, src.client = of[0], s.client(i, of[0])
			}
			version, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if c, ok := s.childOf(i, o); ok {
					s.floors.note(holding{c.Label, i}, c.Version)
					found(c)
				}
				return ctx.Err() == nil
			})
			lists[at] = childList{version, err}
			if survey && err == nil {
				s.floors.complete(at)
			}
		}
	}
	return lists
}

// contested reports whether an earlier patch, by the former sharder or with an unknown outcome, may
// still be carried out on this version of a root without an owner, or of one of its children. The
// network may delay it for any time.
func (s *session) contested(m *move, version string) bool {
	if m.decision.Verb != protocol.Assign || s.first {
		return false
	}
	order, known := protocol.CompareVersions(version, s.version) // client-go's fakes have no versions
	return known && order <= 0 || s.moves.inDoubt(m.root.Ref)
}

// protect makes sure, once, that the root has no owner while its children move, because its shard
// would lose sight of them. A contested root gets another version, so that no earlier patch can
// assign it. The drain label of a root without an owner means nothing, and the assignment removes
// it. A root that came from a list or an event is read, because these may be late, and this session
// may have assigned the root since.
func (s *session) protect(ctx context.Context, m *move) error {
	if m.protecting.Swap(true) {
		<-m.protected
		return m.unfit
	}
	defer close(m.protected)
	switch r := &m.root; {
	case s.contested(m, r.Version):
		var version string
		version, m.unfit = s.send(ctx, r.Ref, protocol.Protect, r.Label,
			s.marks[r.Resource].MergePatch(r.UID, r.Version, r.Label, !r.Drain, nil))
		if m.unfit == nil {
			r.Version = version
		}
	case !m.current:
		o, err := s.get(ctx, r.Ref)
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
func (s *session) bring(ctx context.Context, m *move, c protocol.Child) {
	resource, contended := s.graph.All[c.Resource].GVR.GroupResource().String(), errContended
	for range attempts {
		label := m.decision.Label
		there := c.Label == label && !c.Drain
		if there && !s.contested(m, c.Version) {
			m.reach(resource, c.Version)
			return
		}
		if err := s.protect(ctx, m); err != nil {
			m.fail(err)
			return
		}
		version, err := s.send(ctx, c.Ref, protocol.Follow, label,
			s.keys.MergePatch(c.UID, c.Version, label, there, nil))
		switch {
		case err == nil && there:
			c.Drain, c.Version = true, version
			continue
		case err == nil:
			s.floors.note(holding{label, c.Resource}, version)
			m.reach(resource, version)
			return
		case s.absent(c.Ref, err):
			return
		case !protocol.IsOutdated(err):
			m.fail(err)
			return
		}
		contended = fmt.Errorf("%w: %w", errContended, err)
		o, err := s.get(ctx, c.Ref)
		if err != nil {
			m.fail(err)
			return
		}
		if o == nil {
			return
		}
		now, ok := s.childOf(c.Resource, o)
		if !ok || now.Root != c.Root || now.RootUID != c.RootUID {
			return
		}
		c = now
	}
	m.fail(contended)
}

// settleRoot assigns a root whose children are where they belong. lists are the lists of children.
func (s *session) settleRoot(ctx context.Context, m *move, b batch, lists map[place]childList) {
	var err error
	for _, i := range s.graph.ChildResources[m.root.Resource] {
		err = cmp.Or(err, lists[s.placeOf(i, m.root.Namespace)].err)
	}
	switch {
	case err != nil:
	case m.err != nil:
		err = m.err
	case s.plan.Load() != m.plan:
		err = errReplanned
	default:
		r := *m.decision.Record
		r.ChildFloor, r.Childless = map[string]string{}, map[string]string{}
		for _, i := range s.graph.ChildResources[m.root.Resource] {
			name := s.graph.All[i].GVR.GroupResource().String()
			r.ChildFloor[name] = m.floor[name]
			switch version := lists[s.placeOf(i, m.root.Namespace)].version; {
			case !m.root.Recorded && !b.any: // the list did not show children that the shard already has
				r.ChildFloor[name] = protocol.Later(m.floor[name], s.floors.floor(holding{m.decision.Label, i}))
			case m.floor[name] == "" && version != "":
				r.Childless[name] = version
			}
		}
		m.decision.Record = &r
		err = s.patch(ctx, m.root, m.decision)
	}
	if s.absent(m.root.Ref, err) {
		s.finish(ctx, m.item, true, nil)
		return
	}
	if err != nil {
		s.moves.doubt(m.root.Ref)
	} else {
		s.moves.mended(m.root.Ref)
		m.item.wrote = true
	}
	if protocol.IsOutdated(err) { // nothing to log
		err = errReplanned
	}
	s.finish(ctx, m.item, m.decision.Placed(), err)
}
