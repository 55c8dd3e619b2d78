package sharder

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// work processes one object after another until ctx ends, with hanging even those whose last
// attempt hung.
func (s *session) work(ctx context.Context, hanging bool) {
	for {
		i, o, slot := s.queue.take(ctx, hanging)
		if i == nil {
			return
		}
		began := time.Now()
		placed, err := s.attempt(ctx, i, o, slot)
		if errors.Is(err, errMoving) {
			continue
		}
		i.hung = err != nil && time.Since(began) >= protocol.HangsAfter
		s.finish(ctx, i, placed, err)
	}
}

// attempt does what an object needs. See [session.reconcile] for what it returns.
func (s *session) attempt(ctx context.Context, i *item, o subject, slot bool) (placed bool, err error) {
	ctx, end := s.queue.limit(ctx, i)
	defer end()
	if i.Resource < len(s.resources) {
		placed, err = s.reconcile(ctx, i, versionOf[protocol.Root](o), slot)
	} else {
		placed, err = true, s.assignChild(ctx, i.Ref, versionOf[protocol.Child](o))
	}
	if err != nil && !errors.Is(err, errMoving) && errors.Is(context.Cause(ctx), errGivenUp) {
		err = fmt.Errorf("%w: %w", errGivenUp, err)
	}
	return placed, err
}

// finish ends the work on an object.
func (s *session) finish(ctx context.Context, i *item, placed bool, err error) {
	var held heldError
	switch {
	case ctx.Err() != nil:
		s.queue.done(i, false)
		return
	case err == nil:
		if placed {
			s.unowned.see(i.Ref, "", "", time.Now())
		}
		s.queue.done(i, placed)
	case errors.As(err, &held):
		if !s.queue.hold(i, held) {
			notify(s.unsettle) // a scan will find it
		}
	case errors.Is(err, errRootless):
		s.queue.retry(i, time.Now()) // or a scan will find it
	default:
		if !errors.Is(err, errReplanned) && !errors.Is(err, errOutlived) {
			s.note(ctx, i, err)
		}
		now := time.Now()
		if errors.Is(err, errGivenUp) {
			now = now.Add(requestTimeout) // until then the API server may carry the last patch out
		}
		if !s.queue.retry(i, now) {
			notify(s.unsettle) // a scan will find it
		}
	}
	notify(s.progress)
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
func (s *session) reconcile(ctx context.Context, i *item, o *protocol.Root, reserved bool) (placed bool, err error) {
	r, drained, current := i.Ref, false, false
	defer func() {
		if reserved {
			s.drains.patched(r, drained)
		}
	}()
	contended := errContended
	for range attempts {
		if o == nil {
			if o, err = s.read(ctx, r); err != nil {
				return false, err
			}
			current = true
			if o == nil { // deleted, or no longer distributed
				return true, nil
			}
		}
		p := s.plan.Load()
		if p == nil {
			return false, nil
		}
		sit, d, err := s.leases.resolve(ctx, *o, p)
		if err == nil && !sit.Recorded && sit.Stalls(d) && s.unwritten(ctx, *o) {
			if sit, d, err = s.firstOwner(sit, d, p); err != nil {
				return false, err
			}
		}
		s.unowned.see(r, o.UID, sit.Vacancy(), time.Now())
		switch {
		case err != nil:
			return false, err
		case d.Verb == protocol.Keep:
			return true, nil
		case d.Verb == protocol.Await:
			return false, nil
		case d.Verb == protocol.Hold, d.Verb == protocol.Reread:
			s.hold(d)
			return false, nil
		}
		if isRepair(*o, d) {
			if err := s.awaitRepair(r, o.UID); err != nil {
				return false, err
			}
		}
		if d.Drain && !o.Drain && !reserved {
			if !s.drains.reserve(ctx, r, d.Label, time.Now(), false) {
				notify(s.unsettle) // a scan waits until there is a slot
				return false, nil
			}
			reserved = true
		}
		if d.Verb == protocol.Assign && sit.Recorded {
			if d, err = s.judge(sit, d); err != nil {
				return false, err
			}
		}
		if d.Verb == protocol.Assign {
			if err := s.marks[r.Resource].RoomFor(*o, *d.Record); err != nil {
				s.unowned.see(r, o.UID, err.Error(), time.Now())
				return false, err
			}
		}
		if d.MovesChildren() && len(s.graph.ChildResources[r.Resource]) > 0 {
			floor, known := s.floorOf(sit, d)
			if !known {
				s.outsiders.Store(newOutsiders()) // before the list
				s.queue.leave(i)
				s.moves.add(&move{
					item: i, root: *o, decision: d, origin: sit.Origin(), plan: p, current: current,
				})
				return false, errMoving
			}
			d.Record.ChildFloor = floor
		}
		switch err := s.patch(ctx, *o, d); {
		case err == nil:
			drained, i.wrote = d.Drain, true
			if d.Verb == protocol.Annul {
				s.log(r).Warn("owner record ignored: it names an epoch that never existed",
					zap.String("shard", d.Record.Shard), zap.Int64("epoch", d.Record.Epoch))
			}
			return d.Placed(), nil
		case s.absent(r, err):
			return true, nil
		case protocol.IsOutdated(err):
			o, contended = nil, fmt.Errorf("%w: %w", errContended, err)
		default: // the outcome may be unknown
			return false, err
		}
	}
	return false, contended
}

// errOutlived means that the owner of a new object does not renew its Lease.
var errOutlived = errors.New("it waits for a plan without a shard that does not renew its Lease")

// firstOwner returns the decision about an object that never had an owner. No shard that may be dead is
// asked.
func (s *session) firstOwner(sit protocol.Situation, d protocol.Decision, p *plan) (
	protocol.Situation, protocol.Decision, error,
) {
	owner, ok := s.leases.living(p, sit.Hash)
	if ok {
		sit, d = sit.First(owner)
		return sit, d, nil
	}
	if len(s.leases.renewing(p.members)) == 0 {
		return sit, d, nil
	}
	s.outlived.Store(true)
	notify(s.changed)
	return sit, d, errOutlived
}

// unwritten proves that an object was not written since it was created, because it does not exist
// at the version before its own. So it never had a record, and no shard may work on it. It returns
// false without the proof, as when the API server has compacted that version.
func (s *session) unwritten(ctx context.Context, o protocol.Root) bool {
	version, err := strconv.ParseUint(o.Version, 10, 64)
	if err != nil || version < 2 {
		return false
	}
	before := strconv.FormatUint(version-1, 10)
	list, err := bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadataList, error) {
		return s.client(o.Resource, o.Namespace).List(ctx, metav1.ListOptions{
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
func (s *session) floorOf(sit protocol.Situation, d protocol.Decision) (floor map[string]string, known bool) {
	if d.Verb != protocol.Assign || sit.Recorded || sit.Origin().Any || !s.resources[sit.Resource].Selector.Empty() ||
		s.moves.inDoubt(sit.Ref) || s.unsurveyed(sit.Root) {
		return nil, false
	}
	floor = map[string]string{}
	for _, i := range s.graph.ChildResources[sit.Resource] {
		floor[s.graph.All[i].GVR.GroupResource().String()] = s.floors.floor(holding{d.Label, i})
	}
	return floor, true
}

// get reads an object. It returns nil if the object does not exist.
func (s *session) get(ctx context.Context, r protocol.Ref) (*metav1.PartialObjectMetadata, error) {
	o, err := bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return s.client(r.Resource, r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	})
	switch {
	case s.absent(r, err):
		return nil, nil
	case err != nil:
		return nil, s.failed("get", r, err)
	}
	return o, nil
}

// absent reports whether err means that an object does not exist.
func (s *session) absent(r protocol.Ref, err error) bool {
	return kube.Absent(err, s.graph.All[r.Resource].GVR.GroupResource(), r.Name)
}

// read returns the current root. It returns nil if the object does not exist or is not distributed.
func (s *session) read(ctx context.Context, r protocol.Ref) (*protocol.Root, error) {
	o, err := s.get(ctx, r)
	if o == nil {
		return nil, err
	}
	v, ok := s.rootOf(r.Resource, o)
	if !ok || !s.resources[r.Resource].Selector.Matches(labels.Set(o.Labels)) {
		return nil, nil
	}
	return &v, nil
}

// patch carries out a decision, unless the root has changed since.
func (s *session) patch(ctx context.Context, o protocol.Root, d protocol.Decision) error {
	_, err := s.send(ctx, o.Ref, d.Verb, d.Label,
		s.marks[o.Resource].MergePatch(o.UID, o.Version, d.Label, d.Drain, d.Record, o.Foreign...))
	if err == nil && isRepair(o, d) {
		s.repairs.repaired(o.Ref, o.UID, time.Now())
	}
	return err
}

// send sends a patch that sets the shard label of an object, and returns the new version.
func (s *session) send(ctx context.Context, r protocol.Ref, v protocol.Verb, shard string,
	patch []byte,
) (version string, err error) {
	began := time.Now()
	o, err := s.merge(ctx, r, patch)
	over := ctx.Err() != nil && !errors.Is(context.Cause(ctx), errGivenUp)
	if s.config.Hooks.OnPatch != nil && !over {
		s.config.Hooks.OnPatch(Patch{
			Object: s.objectRef(r), Verb: string(v), Shard: shard, Latency: time.Since(began),
			Err: err,
		})
	}
	if err != nil {
		return "", s.failed("patch", r, err)
	}
	return o.ResourceVersion, nil
}

// merge sends a merge patch.
func (s *session) merge(ctx context.Context, r protocol.Ref, patch []byte) (*metav1.PartialObjectMetadata, error) {
	o, err := bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return s.client(r.Resource, r.Namespace).Patch(s.throttle.watch(ctx), r.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: protocol.FieldManager})
	})
	if err == nil {
		err = protocol.Applied(patch, o)
	}
	return o, err
}

// failed adds the request to an error.
func (s *session) failed(verb string, r protocol.Ref, err error) error {
	of := s.graph.All[r.Resource]
	needs := kube.Right{
		Verb: verb, Resource: of.GVR.GroupResource(), Namespace: of.WatchedNamespace(r.Namespace), Name: r.Name,
	}
	object := fmt.Sprintf("%s %s/%s", needs.Resource, r.Namespace, r.Name)
	return &kube.RequestError{Right: needs, Object: object, Err: err}
}

func (s *session) log(r protocol.Ref) *zap.Logger {
	return s.config.Logger.With(zap.Stringer("resource", s.graph.All[r.Resource].GVR.GroupResource()),
		zap.String("namespace", r.Namespace), zap.String("name", r.Name))
}

// note logs a failure, once for each object and cause.
func (s *session) note(ctx context.Context, i *item, err error) {
	level := warning(ctx, err)
	if said := err.Error(); said != i.said && s.notes.admit(time.Now()) {
		i.said = said
		s.log(i.Ref).Log(level, "object update failed, retrying", zap.Error(err))
	}
}

const (
	// noteInterval is the time in which at most maxNotes failures are logged. There may be
	// thousands.
	noteInterval = 10 * time.Second
	maxNotes     = 5
)

// notes limits what is logged.
type notes struct {
	mu    sync.Mutex
	began time.Time
	count int
}

// admit reports whether a failure may be logged now.
func (n *notes) admit(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.began) >= noteInterval {
		n.began, n.count = now, 0
	}
	n.count++
	return n.count <= maxNotes
}
