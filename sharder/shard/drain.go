package shard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// ErrDrained is the cause with which the context of work ends if the object must move to another
// shard, or the Selector of its Resource no longer selects it, and work has not ended within
// [Config].AckGrace.
var ErrDrained = errors.New("shard: the object is no longer to be this shard's")

const (
	// requestPoll is how often to check whether an abandoned request can still be carried out, or
	// [Config].Quiet is over, which no event shows.
	requestPoll = 250 * time.Millisecond
	// floorPoll is how often to check whether all caches have passed a floor, because the root's
	// last event may have come before.
	floorPoll = 5 * time.Second
	// drainTimeout bounds each request about an object that is handed over.
	drainTimeout = 10 * time.Second
)

// shardManager is the field manager of a shard's patches.
const shardManager = "bellwether-shard"

// advanceDrain takes the steps that a root needs now. It returns the delay until the next look, or
// zero if an event will follow. After an error the caller retries later.
func (s *Shard) advanceDrain(
	ctx context.Context, term *shardlease.Term, at protocol.Address,
) (again time.Duration, err error) {
	for {
		known := s.tracker.get(at)
		root := s.newest(term, at)
		deselected := false
		if s.mayBeDeselected(at, root, known) {
			live, _, err := s.readLive(ctx, at)
			if err != nil {
				return 0, fmt.Errorf("shard: read %s, which may no longer be selected: %w", at, err)
			}
			if live != nil && !s.selects(at.Resource, live) {
				root, deselected = live, true
			}
		}
		h := protocol.Handover{DrainState: known.drainState, Floor: known.floor}
		if known.drainState == protocol.Closing {
			h.AtWork = s.tracker.inFlight(at) > 0
			h.Pending = s.tracker.pending(at) || time.Since(known.quietSince) < s.config.Quiet
			h.Overdue = time.Since(known.since) >= s.config.AckGrace
		}
		if root != nil {
			h.Assignment, h.Version = s.self(term, at.Resource).AssignmentOf(root), root.GetResourceVersion()
		}
		if deselected && h.Assignment == protocol.AssignedHere {
			h.Assignment = protocol.AssignedDraining
		}
		switch h.NextAction() {
		case protocol.DoNothing:
			switch {
			case known.floor == "":
				return 0, nil
			case !s.cachesReached(term, at, known.floor):
				return floorPoll, nil
			}
			s.tracker.clearFloor(at, known.floor)
			return 0, nil
		case protocol.StopAdmission:
			s.tracker.advance(at, protocol.Closing, "")
		case protocol.ResumeAdmission:
			s.tracker.advance(at, protocol.Accepting, "")
		case protocol.AwaitWork:
			if h.AtWork { // its end triggers the next look
				return max(time.Millisecond, s.config.AckGrace-time.Since(known.since)), nil
			}
			return requestPoll, nil
		case protocol.CancelWork:
			s.config.Logger.Warn(
				"work exceeded AckGrace on an object that is moving away, cancelling it",
				zap.Stringer("object", at),
			)
			s.tracker.cancelWork(at, ErrDrained)
			return 0, nil // its end triggers the next look
		case protocol.SendAck:
			err = s.acknowledge(ctx, at, root, deselected)
		case protocol.ReadLive:
			err = s.confirmAck(ctx, term, at)
		case protocol.ReturnObject:
			return 0, s.returnObject(ctx, at, root, "", false)
		}
		if err != nil {
			return 0, err
		}
	}
}

// selects reports whether the ring distributes a root with these labels.
func (s *Shard) selects(resource schema.GroupVersionResource, root metav1.Object) bool {
	selector := s.roots[resource].selector
	return selector == nil || selector.Matches(labels.Set(root.GetLabels()))
}

// mayBeDeselected reports whether a live read can show that a root is no longer selected, because a
// cache shows this, or no longer shows the root. root is the newest copy, or nil if it does not
// exist.
func (s *Shard) mayBeDeselected(at protocol.Address, root metav1.Object, known workState) bool {
	if root != nil {
		return !s.selects(at.Resource, root)
	}
	moved := known.drainState == protocol.Accepting && known.floor != ""
	return s.roots[at.Resource].selector != nil && !moved
}

// acknowledge states that this process does not work on a root, and will not. It hands the root to
// its successor if the sharder has named one, and takes the marks off a root that is no longer
// selected. The root stays closed until the outcome is known.
func (s *Shard) acknowledge(ctx context.Context, at protocol.Address, root metav1.Object, deselected bool) error {
	s.tracker.advance(at, protocol.AckUncertain, "")
	resource := s.roots[at.Resource]
	n := resource.keys
	patch := n.StripPatch(root)
	if !deselected {
		r, _ := n.RecordOf(root)
		label, next := n.ReleaseRecord(root, r, resource.family)
		patch = n.MergePatch(root.GetUID(), root.GetResourceVersion(), label, false, next)
	}
	answer, err := s.patch(ctx, at, patch)
	s.config.Hooks.drained(at, time.Since(s.tracker.get(at).since), err)
	switch {
	case err != nil:
		return fmt.Errorf("shard: acknowledge the drain of %s: %w", at, err)
	case answer.GetResourceVersion() == "":
		s.tracker.advance(at, protocol.AckUnseen, "")
	default:
		s.tracker.advance(at, protocol.Accepting, answer.GetResourceVersion())
	}
	return nil
}

// confirmAck reads the root consistently to learn whether an acknowledgement was carried out. If it
// was not, the next step is decided again. Work begins on no version below the one read, and on
// that one only if it is not drained, because the acknowledgement can only be carried out on a
// drained version.
func (s *Shard) confirmAck(ctx context.Context, term *shardlease.Term, at protocol.Address) error {
	root, version, err := s.readLive(ctx, at)
	if err != nil {
		return fmt.Errorf("shard: read %s, whose acknowledgement has an unknown outcome: %w", at, err)
	}
	now := protocol.AssignedElsewhere // gone, and perhaps another shard's before: no copy counts
	if root != nil {
		now = s.self(term, at.Resource).AssignmentOf(root)
	}
	if now == protocol.AssignedElsewhere && version == "" {
		s.tracker.advance(at, protocol.AckUnseen, "")
	} else {
		s.tracker.advance(at, protocol.Accepting, version)
	}
	return nil
}

// readLive reads a root consistently, and returns nil if it does not exist. The version is that of
// the root, or one at which it did not exist.
func (s *Shard) readLive(ctx context.Context, at protocol.Address) (
	root *metav1.PartialObjectMetadata, version string, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	// A list, not a get, because it has a version even if the object is gone.
	list, err := s.metadata.Resource(at.Resource).Namespace(at.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, at.Name).String(),
	})
	if err = kube.Versioned(list, err); err != nil {
		return nil, "", err
	}
	for i := range list.Items { // client-go's fakes do not select by name
		if o := &list.Items[i]; at.Of(o) {
			return o, o.GetResourceVersion(), nil
		}
	}
	return nil, list.GetResourceVersion(), nil
}

// returnObject sends an object that this shard has no claim to back to the sharder, which decides.
// A root loses its label, but not its record, which names its owner. A child is only marked as
// drained, because its label may be right.
func (s *Shard) returnObject(
	ctx context.Context, at protocol.Address, o metav1.Object, label string, drained bool,
) error {
	_, err := s.patch(ctx, at, s.keys.MergePatch(o.GetUID(), o.GetResourceVersion(), label, drained, nil))
	s.config.Hooks.bounced(at, err)
	if err != nil {
		return fmt.Errorf("shard: send %s back to the sharder: %w", at, err)
	}
	s.config.Logger.Info("sent an object that is not this shard's back to the sharder", zap.Stringer("object", at))
	return nil
}

// patch patches exactly one version of an object, so that it undoes no later decision.
func (s *Shard) patch(ctx context.Context, at protocol.Address, patch []byte) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	answer, err := s.metadata.Resource(at.Resource).Namespace(at.Namespace).
		Patch(ctx, at.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: shardManager})
	if err == nil {
		err = protocol.Applied(patch, answer)
	}
	return answer, err
}
