package sharder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// work deals with one object after another until ctx has ended.
func (e *session) work(ctx context.Context) {
	for {
		i, o, slot := e.queue.take(ctx)
		if i == nil {
			return
		}
		var placed bool
		var err error
		if i.resource < len(e.resources) {
			placed, err = e.deal(ctx, i, versionOf[root](o), slot)
		} else {
			placed, err = true, e.lead(ctx, i.ref, versionOf[child](o))
		}
		if !errors.Is(err, errMoving) {
			e.finish(ctx, i, placed, err)
		}
	}
}

// finish ends the work on an object.
func (e *session) finish(ctx context.Context, i *item, placed bool, err error) {
	switch {
	case ctx.Err() != nil:
		e.queue.done(i, false)
		return
	case err == nil:
		e.queue.done(i, placed)
	case errors.Is(err, errRootless):
		e.queue.retry(i, time.Now()) // or a scan will find it
	default:
		if !errors.Is(err, errReplanned) {
			e.note(i, err)
		}
		if !e.queue.retry(i, time.Now()) {
			poke(e.unsettle) // a scan will find it
		}
	}
	poke(e.progress)
}

// versionOf returns a version of a root or of a child; nil: none is known.
func versionOf[T subject](o subject) *T {
	if v, ok := o.(T); ok {
		return &v
	}
	return nil
}

// attempts is how often an object is decided on anew without a pause, when others change it meanwhile.
const attempts = 5

var errContended = errors.New("others change it again and again")

// deal does what has to be done about a root, and reports whether it is where it belongs then. After an error it has to be read
// and dealt with again, but after errMoving somebody else finishes the item. o is what is known of the root; nil: nothing. reserved
// says that it may be drained.
func (e *session) deal(ctx context.Context, i *item, o *root, reserved bool) (placed bool, err error) {
	r, drained := i.ref, false
	defer func() {
		if reserved {
			e.drains.patched(r, drained)
		}
	}()
	contended := errContended
	for range attempts {
		if o == nil {
			if o, err = e.read(ctx, r); err != nil {
				return false, err
			}
			if o == nil { // deleted, or not to be distributed any more
				return true, nil
			}
		}
		p := e.plan.Load()
		if p == nil {
			return false, nil
		}
		s, d, err := e.registry.resolve(ctx, *o, p)
		switch {
		case err != nil:
			return false, err
		case d.verb == keep:
			return true, nil
		case d.verb == await:
			return false, nil
		case d.verb == hold, d.verb == reread:
			e.hold(d)
			return false, nil
		}
		if d.drain && !o.drain && !reserved {
			if !e.drains.reserve(ctx, r, d.label, time.Now(), false) {
				poke(e.unsettle) // a scan waits until there is a slot
				return false, nil
			}
			reserved = true
		}
		if d.brings() && len(e.kin.children[r.resource]) > 0 {
			floor, known := e.floorOf(s, d)
			if !known {
				e.moves.add(&move{item: i, root: *o, decision: d, origin: s.origin(), plan: p})
				return false, errMoving
			}
			d.record.ChildFloor = floor
		}
		switch err := e.patch(ctx, *o, d); {
		case err == nil:
			drained, i.wrote = d.drain, true
			if d.verb == annul {
				e.log(r).Warn("the record of an object names an epoch of its shard that has never been, and is taken for none",
					zap.String("shard", d.record.Shard), zap.Int64("epoch", d.record.Epoch))
			}
			return d.placed(), nil
		case e.absent(r, err):
			return true, nil
		case outdates(err):
			o, contended = nil, fmt.Errorf("%w: %w", errContended, err)
		default: // the outcome may be unknown
			return false, err
		}
	}
	return false, contended
}

// floorOf is from which versions on caches show the children of a root that has been with no other
// shard than the one that it is assigned to, by the resources of children. If known is false, the
// children have to be listed first.
//
// A root has no record, and can have had no other owner: it is new, or its owner's whose record was
// removed. Its children are with that shard or with none: those that the shard has created itself,
// of whatever version, its own caches show as ever, and those that it was given reach no further
// than what is known of it. Those that are with none have been created since, by others, as they
// could be a moment later as well: the sharder labels them when it sees them. That there were none
// before requires that no root can have been outside of the ring when its children were created, so
// it has no Selector; that all that were there before this session were listed; and that no move of
// the root has ended halfway.
func (e *session) floorOf(s situation, d decision) (floor map[string]string, known bool) {
	if d.verb != assign || s.recorded || s.origin().any || !e.resources[s.resource].Selector.Empty() ||
		e.moves.inDoubt(s.ref) || e.unsurveyed(s.root) {
		return nil, false
	}
	floor = map[string]string{}
	for _, i := range e.kin.children[s.resource] {
		floor[e.kin.all[i].GVR.GroupResource().String()] = e.given.floor(holding{d.label, i})
	}
	return floor, true
}

// get reads an object; nil: there is none.
func (e *session) get(ctx context.Context, r ref) (*metav1.PartialObjectMetadata, error) {
	o, err := bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return e.client(r.resource, r.namespace).Get(ctx, r.name, metav1.GetOptions{})
	})
	switch {
	case e.absent(r, err):
		return nil, nil
	case err != nil:
		return nil, e.failed("get", r, err)
	}
	return o, nil
}

// absent reports whether an error says that an object does not exist.
func (e *session) absent(r ref, err error) bool {
	return kube.Absent(err, e.kin.all[r.resource].GVR.GroupResource(), r.name)
}

// read returns the root as it is now; nil: there is none that is to be distributed.
func (e *session) read(ctx context.Context, r ref) (*root, error) {
	o, err := e.get(ctx, r)
	if o == nil {
		return nil, err
	}
	v, ok := e.rootOf(r.resource, o)
	if !ok || !e.resources[r.resource].Selector.Matches(labels.Set(o.Labels)) {
		return nil, nil
	}
	return &v, nil
}

// patch carries out a decision, if the root is still what was decided on.
func (e *session) patch(ctx context.Context, o root, d decision) error {
	_, err := e.send(ctx, o.ref, d.verb, d.label, e.marks[o.resource].mergePatch(o.uid, o.version, d.label, d.drain, d.record, o.foreign...))
	return err
}

// send sends a patch that gives an object the label of a shard, and returns the version that comes of it.
func (e *session) send(ctx context.Context, r ref, v verb, shard string, patch []byte) (version string, err error) {
	began := time.Now()
	o, err := e.merge(ctx, r, patch)
	if e.config.Hooks.OnPatch != nil && ctx.Err() == nil {
		e.config.Hooks.OnPatch(Patch{Object: e.objectRef(r), Verb: string(v), Shard: shard, Latency: time.Since(began), Err: err})
	}
	if err != nil {
		return "", e.failed("patch", r, err)
	}
	return o.ResourceVersion, nil
}

// merge sends a merge patch.
func (e *session) merge(ctx context.Context, r ref, patch []byte) (*metav1.PartialObjectMetadata, error) {
	return bounded(ctx, func(ctx context.Context) (*metav1.PartialObjectMetadata, error) {
		return e.client(r.resource, r.namespace).Patch(e.throttle.watch(ctx), r.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	})
}

// failed names the request, and what to grant where that is what is missing.
func (e *session) failed(verb string, r ref, err error) error {
	gr := e.kin.all[r.resource].GVR.GroupResource()
	if kube.RoleMissing(err) {
		return fmt.Errorf("not allowed to %s %s: grant the verb %q on resource %s of API group %q: %w", verb, gr, verb, gr.Resource, gr.Group, err)
	}
	return fmt.Errorf("%s %s %s/%s: %w", verb, gr, r.namespace, r.name, err)
}

func (e *session) log(r ref) *zap.Logger {
	return e.config.Logger.With(zap.Stringer("resource", e.kin.all[r.resource].GVR.GroupResource()), zap.String("namespace", r.namespace), zap.String("name", r.name))
}

// note logs a failure: once for each object and cause.
func (e *session) note(i *item, err error) {
	if said := err.Error(); said != i.said && e.notes.admit(time.Now()) {
		i.said = said
		e.log(i.ref).Warn("an object could not be dealt with: it will be tried again", zap.Error(err))
	}
}

const (
	// noteInterval is how often maxNotes failures are logged at most: there may be thousands.
	noteInterval = 10 * time.Second
	maxNotes     = 5
)

// notes limits what is logged.
type notes struct {
	mu    sync.Mutex
	began time.Time
	count int
}

// admit reports whether something may be logged now.
func (n *notes) admit(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now.Sub(n.began) >= noteInterval {
		n.began, n.count = now, 0
	}
	n.count++
	return n.count <= maxNotes
}
