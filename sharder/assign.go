package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// assigner works on the queued objects.
type assigner struct {
	objects  *objects
	planner  *membership.Planner
	queue    *queue
	drains   *drains
	families *families
	suspects *suspects
	undone   *repairs
	unowned  *unowned
}

// work processes one object after another until ctx ends, with hanging even those whose last
// attempt hung.
func (a *assigner) work(ctx context.Context, hanging bool) {
	for {
		i, o, slot := a.queue.take(ctx, hanging)
		if i == nil {
			return
		}
		began := time.Now()
		placed, err := a.attempt(ctx, i, o, slot)
		if errors.Is(err, errMoving) {
			continue
		}
		i.hung = err != nil && time.Since(began) >= protocol.HangsAfter
		a.finish(ctx, i, placed, err)
	}
}

// attempt does what an object needs. See [assigner.reconcile] for what it returns.
func (a *assigner) attempt(ctx context.Context, i *item, o subject, slot bool) (placed bool, err error) {
	ctx, end := a.queue.limit(ctx, i)
	defer end()
	if a.objects.isRoot(i.Resource) {
		placed, err = a.reconcile(ctx, i, versionOf[protocol.Root](o), slot)
	} else {
		placed, err = true, a.assignChild(ctx, i.Ref, versionOf[protocol.Child](o))
	}
	if err != nil && !errors.Is(err, errMoving) && errors.Is(context.Cause(ctx), errGivenUp) {
		err = fmt.Errorf("%w: %w", errGivenUp, err)
	}
	return placed, err
}

// finish ends the work on an object.
func (a *assigner) finish(ctx context.Context, i *item, placed bool, err error) {
	var held heldError
	switch {
	case ctx.Err() != nil:
		a.queue.done(i, false)
		return
	case err == nil:
		if placed {
			a.unowned.see(i.Ref, "", "", time.Now())
		}
		a.queue.done(i, placed)
	case errors.As(err, &held):
		if !a.queue.hold(i, held) {
			notify(a.queue.unsettled) // a scan will find it
		}
	case errors.Is(err, errRootless):
		a.queue.retry(i, time.Now()) // or a scan will find it
	default:
		if !errors.Is(err, errReplanned) && !errors.Is(err, membership.ErrReplanning) {
			a.objects.note(ctx, i, err)
		}
		now := time.Now()
		if errors.Is(err, errGivenUp) {
			now = now.Add(kube.RequestTimeout) // until then the API server may carry the last patch out
		}
		if !a.queue.retry(i, now) {
			notify(a.queue.unsettled) // a scan will find it
		}
	}
	notify(a.queue.progress)
}

// versionOf returns the subject's version as a T, or nil if none is known.
func versionOf[T subject](o subject) *T {
	if v, ok := o.(T); ok {
		return &v
	}
	return nil
}

// attempts bounds how often an object is decided on without a pause while others change it.
const attempts = 5

var errContended = errors.New("others change it again and again")

// reconcile does what a root needs, and reports whether the root is then with its owner. o is the
// last known version of the root, or nil. reserved means that a drain slot is taken for it. After
// an error the root must be read and reconciled again. After errMoving, the goroutine that moves
// its family finishes the item.
func (a *assigner) reconcile(ctx context.Context, i *item, o *protocol.Root, reserved bool) (placed bool, err error) {
	r, drained, current := i.Ref, false, false
	defer func() {
		if reserved {
			a.drains.patched(r, drained)
		}
	}()
	contended := errContended
	for range attempts {
		if o == nil {
			if o, err = a.objects.read(ctx, r); err != nil {
				return false, err
			}
			current = true
			if o == nil { // deleted, or no longer distributed
				return true, nil
			}
		}
		p := a.planner.Current()
		if p == nil {
			return false, nil
		}
		sit, d, err := a.planner.Shards.Resolve(ctx, *o, p)
		if err == nil && !sit.Recorded && sit.AsksOthers(d) && a.unwritten(ctx, *o) {
			if sit, d, err = a.planner.FirstOwner(sit, d, p); err != nil {
				return false, err
			}
		}
		if err == nil && !sit.Recorded && d.Verb == protocol.Assign {
			err = a.planner.Admit(p, o.Hash)
		}
		a.unowned.see(r, o.UID, sit.Vacancy(), time.Now())
		switch {
		case err != nil:
			return false, err
		case d.Verb == protocol.Keep:
			return true, nil
		case d.Verb == protocol.Await:
			return false, nil
		case d.Verb == protocol.Hold, d.Verb == protocol.Reread:
			a.planner.Shards.Ask(d.About)
			notify(a.queue.unsettled)
			return false, nil
		}
		if isRepair(*o, d) {
			if err := a.undone.await(r, o.UID); err != nil {
				return false, err
			}
		}
		if d.Drain && !o.Drain && !reserved {
			if !a.drains.reserve(ctx, r, d.Label, time.Now(), false) {
				notify(a.queue.unsettled) // a scan waits until there is a slot
				return false, nil
			}
			reserved = true
		}
		if d.Verb == protocol.Assign && sit.Recorded {
			if d, err = a.suspects.judge(sit, d); err != nil {
				return false, err
			}
		}
		if d.Verb == protocol.Assign {
			if err := a.objects.marks[r.Resource].RoomFor(*o, *d.Record); err != nil {
				a.unowned.see(r, o.UID, err.Error(), time.Now())
				return false, err
			}
		}
		if d.MovesChildren() && len(a.objects.graph.ChildResources[r.Resource]) > 0 {
			floor, known := a.floorOf(sit, d)
			if !known {
				a.queue.leave(i)
				a.families.add(&move{
					item: i, root: *o, decision: d, origin: sit.Origin(), plan: p, current: current,
				})
				return false, errMoving
			}
			d.Record.ChildFloor = floor
		}
		switch err := a.patch(ctx, *o, d); {
		case err == nil:
			drained, i.wrote = d.Drain, true
			if d.Verb == protocol.Annul {
				a.objects.log(r).Warn("owner record ignored: it names an epoch that never existed",
					zap.String("shard", d.Record.Shard), zap.Int64("epoch", d.Record.Epoch))
			}
			return d.Placed(), nil
		case a.objects.absent(r, err):
			return true, nil
		case protocol.IsOutdated(err):
			o, contended = nil, fmt.Errorf("%w: %w", errContended, err)
		default: // the outcome may be unknown
			return false, err
		}
	}
	return false, contended
}

// unwritten proves that an object was not written since it was created, because it does not exist
// at the version before its own. So it never had a record, and no shard may work on it. It returns
// false without the proof, as when the API server has compacted that version.
func (a *assigner) unwritten(ctx context.Context, o protocol.Root) bool {
	version, err := strconv.ParseUint(o.Version, 10, 64)
	if err != nil || version < 2 {
		return false
	}
	before := strconv.FormatUint(version-1, 10)
	list, err := kube.Bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
		return a.objects.of(o.Resource, o.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, o.Name).String(),
			ResourceVersion: before, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		})
	})
	return err == nil && list.ResourceVersion == before && len(list.Items) == 0
}

// floorOf returns the versions from which on caches show the children of a root, by resource of the
// children. It is for a root that can have had no owner but the shard that it is assigned to,
// because it is new, or its record was removed. If known is false, the children must be listed
// first.
//
// Such children are with that shard, or with none. Those that the shard created itself are in its
// own caches, whatever their version. Those that were assigned to it are not newer than the floor.
// Those that are with no shard were created since by others, and the sharder labels them when it
// sees them.
//
// That there were no others before requires three things: the root's resource has no Selector, so
// that the root cannot have been outside of the ring when its children were created; all children
// that existed before this session were listed; no move of the root ended halfway.
func (a *assigner) floorOf(sit protocol.Situation, d protocol.Decision) (floor map[string]string, known bool) {
	if d.Verb != protocol.Assign || sit.Recorded || sit.Origin().Any ||
		!a.objects.roots[sit.Resource].Selector.Empty() ||
		a.families.inDoubt(sit.Ref) || a.unsurveyed(sit.Root) {
		return nil, false
	}
	floor = map[string]string{}
	for _, i := range a.objects.graph.ChildResources[sit.Resource] {
		floor[a.objects.graph.All[i].GVR.GroupResource().String()] = a.families.floor(holding{d.Label, i})
	}
	return floor, true
}

// unsurveyed reports whether children of the root may be with any shard, unknown to this session.
func (a *assigner) unsurveyed(r protocol.Root) bool {
	return slices.ContainsFunc(a.objects.graph.ChildResources[r.Resource], func(i int) bool {
		return !a.families.knows(a.objects.placeOf(i, r.Namespace))
	})
}

// patch carries out a decision, unless the root has changed since.
func (a *assigner) patch(ctx context.Context, o protocol.Root, d protocol.Decision) error {
	_, err := a.objects.send(ctx, o.Ref, d.Verb, d.Label,
		a.objects.marks[o.Resource].MergePatch(o.UID, o.Version, d.Label, d.Drain, d.Record, o.Foreign...))
	if err == nil && isRepair(o, d) {
		a.undone.repaired(o.Ref, o.UID, time.Now())
	}
	return err
}
