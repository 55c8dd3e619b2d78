package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/utils/ptr"
)

// errRootless means that the root of a child has no owner now. The root will get one, with or
// without this child.
var errRootless = errors.New("its root is with no shard yet")

// childOf returns the Child of an object. ok is false if the object is not a child of the ring.
func (s *session) childOf(index int, o *metav1.PartialObjectMetadata) (c protocol.Child, ok bool) {
	c, ok = s.graph.ChildOf(index, o)
	c.Label, c.Drain = s.keys.ShardOf(o), s.keys.Draining(o)
	return c, ok
}

// adoptChild queues a child for a worker. It returns false if ctx has ended.
func (s *session) adoptChild(ctx context.Context, index int, o *metav1.PartialObjectMetadata) bool {
	s.warnOfOwners(index, o)
	if c, ok := s.childOf(index, o); ok {
		return s.queue.offer(ctx, c, nil, false)
	}
	return ctx.Err() == nil
}

// ownersSaid is a warning of [session.warnOfOwners].
type ownersSaid struct {
	resource int
	several  bool
}

// warnOfOwners warns, once for a resource, of objects that have owners in the ring but no
// controller.
func (s *session) warnOfOwners(index int, o *metav1.PartialObjectMetadata) {
	root, n := s.graph.RootRefOf(index, o)
	if n == 0 || ptr.Deref(root.Controller, false) {
		return
	}
	message := protocol.Uncontrolled
	if n > 1 {
		message = "objects have several owners in the ring, and no owner reference with controller: true: they are " +
			"children of no root, and no shard sees them"
	}
	if _, said := s.ownersSaid.LoadOrStore(ownersSaid{index, n > 1}, true); !said {
		s.log(protocol.Ref{Resource: index, Namespace: o.Namespace, Name: o.Name}).Warn(message,
			zap.String("owner", root.Kind.String()+" "+root.Name))
	}
}

// gather queues the children that are with no member although their roots are, because they were
// created with the label of a dead shard, or an attempt to assign them failed. A child with another
// member than its root is found by that member.
func (s *session) gather(ctx context.Context, p *plan) error {
	s.outsiders.Store(newOutsiders())
	var errs []error
	for i := len(s.resources); i < len(s.graph.All); i++ {
		misled := with(labels.Everything(), s.keys.Drain, selection.Exists)
		for _, src := range append(s.sources(i, p.children(s.keys)), s.sources(i, misled)...) {
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if _, member := p.members.Member(s.keys.ShardOf(o)); member && !s.keys.Draining(o) {
					// the selector would have been too long
					return ctx.Err() == nil
				}
				return s.adoptChild(ctx, i, o)
			})
			errs = append(errs, err) // the other resources may still be listed
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return errors.Join(errs...)
}

// children selects the children that may be moved: those without a member's label, and those of the
// sources.
func (p *plan) children(n protocol.Keys, sources ...string) labels.Selector {
	others := slices.DeleteFunc(p.members.Names(), func(name string) bool { return slices.Contains(sources, name) })
	if len(others) == 0 {
		return labels.Everything()
	}
	if s := with(labels.Everything(), n.Shard, selection.NotIn, others...); len(s.String()) <= maxSelector {
		return s
	}
	return labels.Everything()
}

// assignChild gives a child the label of its root's shard, or removes its label if its root is not
// in the ring. It is for a child without the label of a member, or one that its shard has marked as
// belonging elsewhere. c is the last known version, or nil.
//
// It does nothing while the root has no owner, or one that may be dead, because the next assignment
// of the root lists its children first, and must find those that the last owner may have created.
// The root is read after the child, so if it has an owner then, and the patch finds the child
// unchanged, a later move of the root lists the child.
func (s *session) assignChild(ctx context.Context, r protocol.Ref, c *protocol.Child) error {
	contended := errContended
	for range attempts {
		if c == nil {
			o, err := s.get(ctx, r)
			if o == nil {
				return err
			}
			v, ok := s.childOf(r.Resource, o)
			if !ok {
				return nil
			}
			c = &v
		}
		shard, err := s.leaderOf(ctx, *c)
		if err != nil || shard == c.Label && !c.Drain {
			return err
		}
		p := s.plan.Load()
		if p == nil {
			return errRootless
		}
		if _, member := p.members.Member(c.Label); member && !c.Drain { // the shard decides
			return nil
		}
		if c.Label == "" {
			if err := s.awaitRepair(c.Ref, c.UID); err != nil {
				return err
			}
		}
		version, err := s.send(ctx, c.Ref, protocol.Follow, shard,
			s.keys.MergePatch(c.UID, c.Version, shard, false, nil))
		switch {
		case err == nil:
			if c.Label == "" {
				s.repairs.repaired(c.Ref, c.UID, time.Now())
			}
			s.floors.note(holding{shard, r.Resource}, version)
			return nil
		case s.absent(c.Ref, err):
			return nil
		case protocol.IsOutdated(err):
			c, contended = nil, fmt.Errorf("%w: %w", errContended, err)
		default:
			return err
		}
	}
	return contended
}

// leaderOf reads the root of a child, and returns the shard that it is with, or "" if the ring has
// no such root.
func (s *session) leaderOf(ctx context.Context, c protocol.Child) (shard string, err error) {
	outsiders := s.outsiders.Load() // before the read
	if outsiders.has(c.RootUID) {
		return "", nil
	}
	o, err := s.get(ctx, c.Root)
	if o == nil || o.UID != c.RootUID {
		return "", err
	}
	v, ok := s.rootOf(c.Root.Resource, o)
	if !ok {
		return "", nil
	}
	p := s.plan.Load()
	if p == nil {
		return "", errRootless
	}
	sit := s.leases.situationOf(v, p)
	if sit.Recorded && sit.Owner == protocol.EpochUnknown {
		if err := s.leases.reread(ctx, v.Record.Owner()); err != nil {
			return "", err
		}
		sit = s.leases.situationOf(v, p)
	}
	if shard, ok = sit.ShardOfChildren(); ok {
		return shard, nil
	}
	if !sit.Recorded && !s.resources[c.Root.Resource].Selector.Matches(labels.Set(o.Labels)) { // nor will it be
		outsiders.add(o.UID)
		return "", nil
	}
	return "", errRootless
}
