package sharder

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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
	s.history.Store(&s.store.known)
	background, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { s.leases.run(background, s.version) })
	all.Go(func() { s.collector.run(background) })

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
			s.config.Logger.Warn("the ring's labels are not removed yet, retrying", zap.Error(err))
		case now != said:
			said = now
			s.config.Logger.Warn("waiting for shards to end before the ring's labels are removed",
				zap.Strings("shards", living))
		}
		if len(living) > 0 {
			_, wait := s.leases.membership()
			s.await(ctx, wait)
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
	named, err := s.among(ctx, s.store.known.OwnerEpochs(), nil)
	if err != nil {
		return nil, err
	}
	begun, err := s.among(ctx, slices.SortedFunc(maps.Keys(forged), protocol.OwnerEpoch.Compare), forged)
	return append(named, begun...), err
}

// among returns the shards of those epochs that may be at work. It adds epochs that have not begun
// to forged, unless that is nil, and does not wait for them.
func (s *session) among(ctx context.Context, epochs []protocol.OwnerEpoch, forged unbegun) (living []string,
	err error,
) {
	for _, t := range epochs {
		life := s.leases.lifeOf(t)
		if life == protocol.EpochUnknown {
			if err := s.leases.reread(ctx, t); err != nil {
				return nil, err
			}
			life = s.leases.lifeOf(t)
		}
		switch {
		case life == protocol.EpochEnded:
		case life == protocol.EpochUnknown && forged != nil:
			forged[t] = true
		default: // its Lease is taken when due
			s.leases.ask(t)
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
	patches := s.newStripper()
	defer patches.wait()
	for i := range s.graph.All {
		if i == len(s.resources) && len(living) > 0 { // their children follow
			break
		}
		for _, src := range s.sources(i, labels.Everything()) {
			var failure error
			_, err := src.pages(ctx, func(o *metav1.PartialObjectMetadata) bool {
				if !s.marks[i].CarriesMarks(o) {
					return true
				}
				var owners []string
				owners, failure = patches.stripUnlessOwned(ctx, i, o, forged)
				living = append(living,
					slices.DeleteFunc(owners, func(shard string) bool { return slices.Contains(living, shard) })...)
				return failure == nil
			})
			if failure != nil {
				err = failure
			}
			if err != nil {
				return nil, 0, err
			}
		}
	}
	return living, patches.wait(), nil
}

// stripper strips several objects at a time.
type stripper struct {
	*session
	all   sync.WaitGroup
	slots chan struct{}
	left  atomic.Int64
}

func (s *session) newStripper() *stripper {
	return &stripper{session: s, slots: make(chan struct{}, s.config.Concurrency)}
}

// stripUnlessOwned begins to strip an object, when fewer are under way, unless its record names
// shards that may be at work, which it returns. forged is that of among.
func (s *stripper) stripUnlessOwned(ctx context.Context, index int, o *metav1.PartialObjectMetadata,
	forged unbegun,
) (owners []string, err error) {
	if owners, err = s.among(ctx, s.marks[index].OwnerEpochs(o), forged); err != nil || len(owners) > 0 {
		return owners, err
	}
	s.slots <- struct{}{}
	s.all.Go(func() {
		defer func() { <-s.slots }()
		if err := s.stripOne(ctx, index, o); err != nil && ctx.Err() == nil {
			s.note(ctx, &item{Ref: protocol.Ref{Resource: index, Namespace: o.Namespace, Name: o.Name}}, err)
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

// stripOne strips an object, unless it has changed since it was read.
func (s *session) stripOne(ctx context.Context, index int, o *metav1.PartialObjectMetadata) error {
	at := protocol.Ref{Resource: index, Namespace: o.Namespace, Name: o.Name}
	_, err := s.merge(ctx, at, s.marks[index].StripPatch(o))
	if s.absent(at, err) {
		return nil
	}
	if err != nil {
		return s.failed("patch", at, err)
	}
	return nil
}
