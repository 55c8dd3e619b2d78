package sharder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// errRootless means that the root of a child has no owner now. The root will get one, with or
// without this child.
var errRootless = errors.New("its root is with no shard yet")

// assignChild gives a child the label of its root's shard, or removes its label if its root is not
// in the ring. It is for a child without the label of a member, or one that its shard has marked as
// belonging elsewhere. c is the last known version, or nil.
//
// It does nothing while the root has no owner, or one that may be dead, because the next assignment
// of the root lists its children first, and must find those that the last owner may have created.
// The root is read after the child, so if it has an owner then, and the patch finds the child
// unchanged, a later move of the root lists the child.
func (a *assigner) assignChild(ctx context.Context, r protocol.Ref, c *protocol.Child) error {
	contended := errContended
	for range attempts {
		if c == nil {
			o, err := a.objects.get(ctx, r)
			if o == nil {
				return err
			}
			v, ok := a.objects.childOf(r.Resource, o)
			if !ok {
				return nil
			}
			c = &v
		}
		shard, err := a.leaderOf(ctx, *c)
		if err != nil || shard == c.Label && !c.Drain {
			return err
		}
		p := a.planner.Current()
		if p == nil {
			return errRootless
		}
		if _, member := p.Members.Member(c.Label); member && !c.Drain { // the shard decides
			return nil
		}
		if c.Label == "" {
			if err := a.undone.await(c.Ref, c.UID); err != nil {
				return err
			}
		}
		version, err := a.objects.send(ctx, c.Ref, protocol.Follow, shard,
			a.objects.keys.MergePatch(c.UID, c.Version, shard, false, nil))
		switch {
		case err == nil:
			if c.Label == "" {
				a.undone.repaired(c.Ref, c.UID, time.Now())
			}
			a.families.note(holding{shard, r.Resource}, version)
			return nil
		case a.objects.absent(c.Ref, err):
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
func (a *assigner) leaderOf(ctx context.Context, c protocol.Child) (shard string, err error) {
	outside, round := a.families.isOutside(c.RootUID) // before the read
	if outside {
		return "", nil
	}
	o, err := a.objects.get(ctx, c.Root)
	if o == nil || o.UID != c.RootUID {
		return "", err
	}
	v, ok := a.objects.rootOf(c.Root.Resource, o)
	if !ok {
		return "", nil
	}
	p := a.planner.Current()
	if p == nil {
		return "", errRootless
	}
	sit := a.planner.Shards.SituationOf(v, p)
	if sit.Recorded && sit.Owner == protocol.EpochUnknown {
		if _, err := a.planner.Shards.StateOf(ctx, v.Record.Owner()); err != nil {
			return "", err
		}
		sit = a.planner.Shards.SituationOf(v, p)
	}
	if shard, ok = sit.ShardOfChildren(); ok {
		return shard, nil
	}
	if !sit.Recorded && !a.objects.selects(c.Root.Resource, o) { // nor will it be
		a.families.addOutside(o.UID, round)
		return "", nil
	}
	return "", errRootless
}
