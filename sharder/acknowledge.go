package sharder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// ErrDrained is the cause of the context of work that has not ended within [ShardConfig].AckGrace although another shard is to have the
// object.
var ErrDrained = errors.New("sharder: the object is to be another shard's")

const (
	// requestPoll is how often is asked whether a request that was given up can still be carried out: nobody tells.
	requestPoll = 250 * time.Millisecond
	// floorPoll is how often is asked whether all caches have passed a floor: the event that says so of a root may have come before.
	floorPoll = 5 * time.Second
)

// fieldManager is the name under which a shard's patches stand in managedFields.
const fieldManager = "bellwether-shard"

// settle takes the steps that a root needs now. It returns after how long to look again, zero if something will tell. After an error
// the caller looks again later.
func (s *Shard) settle(ctx context.Context, term *shardlease.Term, at address) (again time.Duration, err error) {
	for {
		known := s.registry.get(at)
		root := s.newest(term, at)
		h := handover{phase: known.phase, floor: known.floor}
		if known.phase == closing {
			h.atWork, h.pending = s.registry.inFlight(at) > 0, s.registry.pending(at)
			h.overdue = time.Since(known.since) >= s.config.AckGrace
		}
		if root != nil {
			h.standing, h.version = s.claimant(term).standing(root), root.GetResourceVersion()
		}
		switch h.next() {
		case stayPut:
			switch {
			case known.floor == "":
				return 0, nil
			case !s.passed(term, at, known.floor):
				return floorPoll, nil
			}
			s.registry.forget(at, known.floor)
			return 0, nil
		case shut:
			s.registry.mark(at, time.Now())
		case reopen, settled:
			s.registry.advance(at, open, "")
		case awaitWork:
			if h.atWork { // its end will tell
				return max(time.Millisecond, s.config.AckGrace-time.Since(known.since)), nil
			}
			return requestPoll, nil
		case cutWork:
			s.config.Logger.Warn("work takes too long on an object that is to be another shard's: its context ends", zap.Stringer("object", at))
			s.registry.cut(at, ErrDrained)
			return 0, nil // its end will tell
		case sendAck:
			err = s.acknowledge(ctx, at, root)
		case readLive:
			err = s.review(ctx, term, at)
		case sendBack:
			return 0, s.bounce(ctx, at, root)
		}
		if err != nil {
			return 0, err
		}
	}
}

// acknowledge says that nothing of this process works on a root, nor will. The root is closed, and stays so until the outcome is
// known.
func (s *Shard) acknowledge(ctx context.Context, at address, root metav1.Object) error {
	s.registry.advance(at, unsure, "")
	r, _ := s.names.recordOf(root)
	r.State = free
	answer, err := s.patch(ctx, at, preconditioned(root, s.unlabelled(), map[string]any{s.names.owner: r.encode()}))
	s.config.Hooks.drained(at, time.Since(s.registry.get(at).since), err)
	switch {
	case err != nil:
		return fmt.Errorf("sharder: acknowledge the drain of %s: %w", at, err)
	case answer.GetResourceVersion() == "":
		s.registry.advance(at, hidden, "")
	default:
		s.registry.advance(at, open, answer.GetResourceVersion())
	}
	return nil
}

// review finds out by a consistent read what an acknowledgement has come to, and sends it once more if it has not been carried out. Work
// begins on no version below what was read. On that one it begins only if it is not drained; but what was sent can be carried out
// on no other version than a drained one.
func (s *Shard) review(ctx context.Context, term *shardlease.Term, at address) error {
	// A list rather than a get, because it has a version also if the object is gone.
	list, err := s.metadata.Resource(at.resource).Namespace(at.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, at.name).String(),
	})
	if err != nil {
		return fmt.Errorf("sharder: read %s, whose acknowledgement has an unknown outcome: %w", at, err)
	}
	var root *metav1.PartialObjectMetadata
	for i := range list.Items { // client-go's fakes do not select by name
		if o := &list.Items[i]; at.of(o) {
			root = o
		}
	}
	version, now := list.GetResourceVersion(), elsewhere // gone, and perhaps another shard's before: no copy is good
	if root != nil {
		version, now = root.GetResourceVersion(), s.claimant(term).standing(root)
	}
	switch {
	case now == drained:
		s.registry.advance(at, unsure, version)
		return s.acknowledge(ctx, at, root)
	case now == elsewhere && version == "":
		s.registry.advance(at, hidden, "")
	default:
		s.registry.advance(at, open, version)
	}
	return nil
}

// bounce removes the label of a root that this shard has no claim to. Its record stays: it says whose the root is. The sharder sees
// the object now, and decides.
func (s *Shard) bounce(ctx context.Context, at address, root metav1.Object) error {
	_, err := s.patch(ctx, at, preconditioned(root, s.unlabelled(), nil))
	s.config.Hooks.bounced(at, err)
	if err != nil {
		return fmt.Errorf("sharder: send %s back to the sharder: %w", at, err)
	}
	s.config.Logger.Info("removed the shard label of an object whose record does not name this shard", zap.Stringer("object", at))
	return nil
}

// unlabelled are the labels of a root that is no shard's. Null removes.
func (s *Shard) unlabelled() map[string]any {
	return map[string]any{s.names.shard: nil, s.names.drain: nil}
}

func (s *Shard) patch(ctx context.Context, at address, patch []byte) (*metav1.PartialObjectMetadata, error) {
	return s.metadata.Resource(at.resource).Namespace(at.namespace).
		Patch(ctx, at.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// preconditioned is a merge patch that is carried out on this version of this object only: nothing is undone that was decided
// meanwhile. client-go's fakes have neither UIDs nor versions.
func preconditioned(o metav1.Object, labels, annotations map[string]any) []byte {
	metadata := map[string]any{"labels": labels}
	if uid := o.GetUID(); uid != "" {
		metadata["uid"] = uid
	}
	if version := o.GetResourceVersion(); version != "" {
		metadata["resourceVersion"] = version
	}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil { // impossible for these values
		panic(fmt.Sprintf("sharder: encode a patch: %v", err))
	}
	return raw
}
