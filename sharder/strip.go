package sharder

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// StripLabels ends a ring. It waits until no living shard may work on any object, and then removes
// the ring's labels and records from all objects of the Resources, selected or not, and from their
// children. When it returns nil, no shard works on any of them, or will before a sharder runs
// again, so the caller may work on all. Like Run, it must be called under the election, so that no
// sharder runs at the same time or while its caller works. See Migration in the package's
// documentation.
//
// StripLabels logs each living shard and waits for it until ctx ends. A shard that has not released
// its Lease must be proved dead, as under Run, by taking its Lease when it has not been renewed for
// twice its duration. A record with an epoch that has never begun is forged, and is removed.
//
// The error is that of ctx, or names what the API server refuses. Objects that are stripped by then
// stay so, and the next call continues. The Leases of the ended shards and the ring's history stay,
// which does no harm; [shardstate.Selector] selects both.
func (s *Sharder) StripLabels(ctx context.Context) error {
	if !s.busy.TryLock() {
		return ErrBusy
	}
	defer s.busy.Unlock()
	defer s.troubles.end()
	e, err := s.begin(ctx, false)
	if err != nil {
		return err
	}
	if e == nil {
		return ctx.Err()
	}
	return e.strip(ctx)
}

// strip waits for the end of all shards in the ring's history and strips all objects. It repeats
// that until nothing is left to wait for or to strip.
func (s *session) strip(ctx context.Context) error {
	background, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { s.planner.Shards.Run(background, s.version) })
	all.Go(func() { s.collector.Run(background) })

	said, pause := "", minPause
	forged := unbegun{}
	for ctx.Err() == nil {
		living, err := s.living(ctx, forged)
		if err == nil && len(living) == 0 {
			var left int
			known := len(forged)
			living, left, err = s.stripAll(ctx, forged)
			if err == nil && len(living) == 0 && left == 0 && len(forged) <= known {
				return nil
			}
		}
		switch now := strings.Join(living, ", "); {
		case ctx.Err() != nil:
		case err != nil:
			s.objects.config.Logger.Warn("the ring's labels are not removed yet, retrying", zap.Error(err))
		case now != said:
			said = now
			s.objects.config.Logger.Warn("waiting for shards to end before the ring's labels are removed",
				zap.Strings("shards", living))
		}
		if len(living) > 0 {
			s.planner.Shards.Await(ctx)
			pause = minPause
			continue
		}
		clock.Sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return ctx.Err()
}

// unbegun are the epochs that records of stripped objects named and that had not begun when their
// Leases were read after the objects, so that these records are forged. If the epoch has still not
// begun once the object is stripped, no shard has worked by the record, or ever will. If it has
// begun, strip waits for its shard.
type unbegun map[protocol.OwnerEpoch]bool

// living returns the shards that may work on objects without a record: those of the ring's history,
// and those of forged records of stripped objects.
func (s *session) living(ctx context.Context, forged unbegun) ([]string, error) {
	named, err := among(ctx, s.planner.Shards, s.planner.Owners(), nil)
	if err != nil {
		return nil, err
	}
	sorted := slices.SortedFunc(maps.Keys(forged), protocol.OwnerEpoch.Compare)
	begun, err := among(ctx, s.planner.Shards, sorted, forged)
	return append(named, begun...), err
}

// among returns the shards of those epochs that may be at work. It adds epochs that have not begun
// to forged, unless that is nil, and does not wait for them.
func among(ctx context.Context, shards *membership.Shards, epochs []protocol.OwnerEpoch, forged unbegun) (
	living []string, err error,
) {
	for _, t := range epochs {
		state, err := shards.StateOf(ctx, t)
		switch {
		case err != nil:
			return nil, err
		case state == protocol.EpochEnded:
		case state == protocol.EpochUnknown && forged != nil:
			forged[t] = true
		default: // its Lease is taken when due
			shards.Ask(t)
			if !slices.Contains(living, t.Shard) {
				living = append(living, t.Shard)
			}
		}
	}
	return living, nil
}

// stripAll strips all objects, and then the children, except those whose record names a shard that
// may be at work. It returns these shards, and how many objects could not be stripped.
func (s *session) stripAll(ctx context.Context, forged unbegun) (living []string, left int, err error) {
	o := s.objects
	patches := newStripper(o, s.planner.Shards, forged)
	defer patches.wait()
	for i := range o.graph.All {
		if i == len(o.roots) && len(living) > 0 { // their children follow
			break
		}
		for _, src := range o.sources(i, labels.Everything()) {
			var failure error
			_, err := src.pages(ctx, func(object *metav1.PartialObjectMetadata) bool {
				if !o.marks[i].CarriesMarks(object) {
					return true
				}
				var owners []string
				owners, failure = patches.stripUnlessOwned(ctx, i, object)
				living = append(living,
					slices.DeleteFunc(owners, func(shard string) bool { return slices.Contains(living, shard) })...)
				return failure == nil
			})
			if err := cmp.Or(failure, err); err != nil {
				return nil, 0, err
			}
		}
	}
	return living, patches.wait(), nil
}

// stripper strips several objects at a time.
type stripper struct {
	objects *objects
	shards  *membership.Shards
	forged  unbegun

	all   sync.WaitGroup
	slots chan struct{}
	left  atomic.Int64
}

func newStripper(o *objects, shards *membership.Shards, forged unbegun) *stripper {
	return &stripper{objects: o, shards: shards, forged: forged, slots: make(chan struct{}, o.config.Concurrency)}
}

// stripUnlessOwned begins to strip an object, when fewer are under way, unless its record names
// shards that may be at work, which it returns.
func (s *stripper) stripUnlessOwned(ctx context.Context, index int, object *metav1.PartialObjectMetadata) (
	owners []string, err error,
) {
	owners, err = among(ctx, s.shards, s.objects.marks[index].OwnerEpochs(object), s.forged)
	if err != nil || len(owners) > 0 {
		return owners, err
	}
	s.slots <- struct{}{}
	s.all.Go(func() {
		defer func() { <-s.slots }()
		at := protocol.Ref{Resource: index, Namespace: object.Namespace, Name: object.Name}
		err := s.strip(ctx, at, s.objects.marks[index].StripPatch(object))
		if err != nil && ctx.Err() == nil {
			s.objects.note(ctx, &item{Ref: at}, err)
			s.left.Add(1)
		}
	})
	return nil, nil
}

// wait returns how many objects could not be stripped.
func (s *stripper) wait() int {
	s.all.Wait()
	return int(s.left.Load())
}

// strip sends a patch that strips an object, unless it has changed since it was read.
func (s *stripper) strip(ctx context.Context, at protocol.Ref, patch []byte) error {
	_, err := s.objects.merge(ctx, at, patch)
	if err == nil || s.objects.absent(at, err) {
		return nil
	}
	return s.objects.failed("patch", at, err)
}

// stripDeselected removes the ring's marks from the objects of a resource that its Selector no
// longer selects. It leaves those whose shard may be at work to that shard, which does the same.
func (s *scanner) stripDeselected(ctx context.Context, index int) error {
	selector := s.objects.roots[index].Selector
	patches := newStripper(s.objects, s.planner.Shards, unbegun{})
	defer patches.wait() // those that could not be stripped are found again by the next scan
	for _, left := range deselected(selector, s.objects.keys.Shard) {
		for _, src := range s.objects.sources(index, left) {
			var failure error
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if selector.Matches(labels.Set(o.Labels)) {
					return true
				}
				_, failure = patches.stripUnlessOwned(ctx, index, o)
				return failure == nil && ctx.Err() == nil
			})
			if err := cmp.Or(failure, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// deselected returns selectors that together select every object with a label that this selector
// does not select: for each of its requirements, the objects that do not meet it. For a requirement
// that a number be greater or less than another, all objects with the label are selected.
func deselected(selector labels.Selector, label string) []labels.Selector {
	requirements, _ := selector.Requirements()
	var all []labels.Selector
	for _, r := range requirements {
		left := with(labels.Everything(), label, selection.Exists)
		switch values := r.ValuesUnsorted(); r.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			left = with(left, r.Key(), selection.NotIn, values...)
		case selection.NotIn, selection.NotEquals:
			left = with(left, r.Key(), selection.In, values...)
		case selection.Exists:
			left = with(left, r.Key(), selection.DoesNotExist)
		case selection.DoesNotExist:
			left = with(left, r.Key(), selection.Exists)
		}
		all = append(all, left)
	}
	return all
}
