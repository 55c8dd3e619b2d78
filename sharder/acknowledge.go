package sharder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// ErrDrained is the cause of the context of work that has to end because another shard is to have the object.
var ErrDrained = errors.New("sharder: the object is to be another shard's")

// step is what there is to do next about a root, so that it can be another shard's.
type step int

const (
	// rest: nothing, until something changes.
	rest step = iota
	// shut the root: no more work begins.
	shut
	// reopen it: it is not wanted any more.
	reopen
	// wait until work has ended, and until its requests cannot be carried out any more.
	wait
	// cut the work off that takes too long.
	cut
	// send the acknowledgement.
	send
	// read the root live: only that tells what has become of an acknowledgement.
	read
	// show: a cache has shown that the root was handed over.
	show
	// bounce the root to the sharder, who cannot see it.
	bounce
)

// case of a root that the next step follows from.
type situation struct {
	phase phase
	floor string
	// atWork says that work is in flight, in any controller of this process, and overdue that it was given its time to end.
	atWork, overdue bool
	// pending says that a request of work that has ended may still be carried out.
	pending bool
	// standing and version of the newest copy; elsewhere if there is none.
	standing standing
	version  string
}

// next decides. A copy from before the last acknowledgement decides nothing; that an acknowledgement or a bounce was decided on another
// version than the present one, the API server finds out.
func (s situation) next() step {
	current := reaches(s.version, s.floor)
	switch s.phase {
	case unsure:
		return read
	case hidden:
		if s.standing == elsewhere {
			return show
		}
		return rest
	case closing:
		switch {
		case s.standing != drained || !current:
			return reopen
		case s.atWork && s.overdue:
			return cut
		case s.atWork || s.pending:
			return wait
		}
		return send
	}
	switch {
	case !current:
		return rest
	case s.standing == drained:
		return shut
	case s.standing == stray:
		return bounce
	}
	return rest
}

// pollInterval is how often is asked for what nobody tells: whether a request that was given up can still be carried out, or whether all
// caches have passed a floor.
const pollInterval = 250 * time.Millisecond

// settle takes the steps that a root needs now. It returns after how long to look again, zero if something will tell; after an error,
// the caller looks again later.
func (s *Shard) settle(ctx context.Context, term *shardlease.Term, at ref) (again time.Duration, err error) {
	for {
		known := s.registry.get(at.uid)
		root, seen := s.newest(term, at)
		c := situation{
			phase: known.phase, floor: known.floor, standing: seen.standing, version: seen.version,
			atWork: s.registry.inFlight(at.uid) > 0, pending: known.phase == closing && s.registry.pending(at.uid),
			overdue: known.phase == closing && time.Since(known.since) >= s.config.AckGrace,
		}
		switch c.next() {
		case rest:
			if known.floor == "" {
				return 0, nil
			}
			if s.passed(term, at.resource, known.floor) {
				s.registry.forget(at.uid, known.floor)
				return 0, nil
			}
			return pollInterval, nil
		case shut:
			s.registry.mark(at.uid, time.Now())
		case reopen:
			s.registry.advance(at.uid, open, "")
		case wait:
			if c.atWork { // its end will tell
				return s.config.AckGrace - time.Since(known.since), nil
			}
			return pollInterval, nil
		case cut:
			s.registry.cut(at.uid, ErrDrained)
			return 0, nil
		case send:
			err := s.acknowledge(ctx, term, at, root)
			s.config.Hooks.acknowledged(at, time.Since(known.since), err)
			if err != nil {
				return 0, err
			}
		case read:
			if err := s.review(ctx, term, at); err != nil {
				return 0, err
			}
		case show:
			s.registry.advance(at.uid, open, "")
		case bounce:
			return 0, s.bounce(ctx, at, root)
		}
	}
}

// acknowledge says that nothing of this process works on the root, nor will. The root is closed, and stays so until the outcome is known.
func (s *Shard) acknowledge(ctx context.Context, term *shardlease.Term, at ref, root metav1.Object) error {
	s.registry.advance(at.uid, unsure, "")
	r, _ := s.claimant(term).names.recordOf(root)
	answer, err := s.patch(ctx, at, acknowledgement(s.names, root, r))
	switch {
	case err != nil:
		return fmt.Errorf("sharder: acknowledge the drain of %s: %w", at, err)
	case answer.GetResourceVersion() == "":
		s.registry.advance(at.uid, hidden, "")
	default:
		s.registry.advance(at.uid, open, answer.GetResourceVersion())
	}
	return nil
}

// review finds out by a consistent read what an acknowledgement has come to. The root is not worked on at any version below what is
// read: if the acknowledgement is carried out later all the same, it was on that version, which is drained.
func (s *Shard) review(ctx context.Context, term *shardlease.Term, at ref) error {
	list, err := s.metadata.Resource(at.resource).Namespace(at.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, at.name).String(),
	})
	if err != nil {
		return fmt.Errorf("sharder: read %s after an acknowledgement of unknown outcome: %w", at, err)
	}
	var root metav1.Object
	for i := range list.Items { // client-go's fakes do not select by name
		if list.Items[i].GetUID() == at.uid {
			root = &list.Items[i]
		}
	}
	switch {
	case root == nil && list.GetResourceVersion() == "":
		s.registry.advance(at.uid, hidden, "")
	case root == nil: // gone, and was perhaps another shard's before: no copy may be used
		s.registry.advance(at.uid, open, list.GetResourceVersion())
	case s.claimant(term).standing(root) == drained:
		s.registry.advance(at.uid, unsure, root.GetResourceVersion())
		return s.acknowledge(ctx, term, at, root)
	case root.GetResourceVersion() == "" && s.claimant(term).standing(root) == elsewhere:
		s.registry.advance(at.uid, hidden, "")
	default:
		s.registry.advance(at.uid, open, root.GetResourceVersion())
	}
	return nil
}

// passed reports whether every cache of this term that may show a root of the resource has reached a version.
func (s *Shard) passed(term *shardlease.Term, resource resourceName, floor string) bool {
	for _, i := range s.informersOf(resource) {
		if i.begunIn(term) && !reaches(i.progress(), floor) {
			return false
		}
	}
	return true
}

// acknowledgement is the patch that hands a root over: only of the version that was seen, so that nothing which was decided meanwhile
// is undone.
func acknowledgement(n names, root metav1.Object, r record) []byte {
	r.State = free
	return preconditioned(root, map[string]any{n.shard: nil, n.drain: nil}, map[string]any{n.owner: r.encode()})
}

// preconditioned is a merge patch of labels and annotations that succeeds on this version of this object only. Null removes.
func preconditioned(o metav1.Object, labels, annotations map[string]any) []byte {
	metadata := map[string]any{"uid": o.GetUID(), "labels": labels}
	if version := o.GetResourceVersion(); version != "" { // client-go's fakes have none
		metadata["resourceVersion"] = version
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil { // impossible for these values
		panic(fmt.Sprintf("sharder: encode a patch: %v", err))
	}
	return raw
}

func (s *Shard) patch(ctx context.Context, at ref, patch []byte) (*metav1.PartialObjectMetadata, error) {
	return s.metadata.Resource(at.resource).Namespace(at.namespace).
		Patch(ctx, at.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// outdatedWrite reports whether a patch was refused because the object has changed, or is another one, or none.
func outdatedWrite(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsInvalid(err)
}

// bounce removes the label of a root that this shard has no claim to. Its record stays: it says whose the root is. The sharder sees
// the object now, and decides.
func (s *Shard) bounce(ctx context.Context, at ref, root metav1.Object) error {
	_, err := s.patch(ctx, at, preconditioned(root, map[string]any{s.names.shard: nil, s.names.drain: nil}, nil))
	s.config.Hooks.bounced(at, err)
	if err != nil {
		return fmt.Errorf("sharder: remove the label of %s: %w", at, err)
	}
	s.config.Logger.Info("removed the label of an object whose record does not name this shard", zap.Stringer("object", at))
	return nil
}
