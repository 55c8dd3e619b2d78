package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Shards holds the state of the ring's shards, by their Leases.
type Shards struct {
	config Config

	changed chan struct{} // something has changed that decisions may depend on
	due     chan struct{} // a takeover may be due

	mu      sync.Mutex
	witness *leasehold.Witness // of containers that end; nil until the session runs
	tracker *shardstate.Tracker
	last    map[string]protocol.OwnerEpoch // members, with the epoch in which they last held their Lease
	asked   map[string]struct{}            // shards that a record or the history names and whose state was unknown
	idle    map[string]clock.Reading       // since when a shard is known to be idle
	passed  map[string]int                 // of the tracker, as matured has seen it last
	damping flapDamping
}

// maxAsked bounds the size of asked, because records could name any number of shards.
const maxAsked = 1000

// readTimeout bounds a request for one Lease.
const readTimeout = 10 * time.Second

// NewShards returns the state of the shards. The tracker outlives it, but only one may be in use at
// a time.
func NewShards(config Config, tracker *shardstate.Tracker) *Shards {
	return &Shards{
		config: config, changed: make(chan struct{}, 1), due: make(chan struct{}, 1), tracker: tracker,
		asked: map[string]struct{}{},
	}
}

func (s *Shards) leases() coordinationclient.LeaseInterface {
	return s.config.Kube.CoordinationV1().Leases(s.config.Namespace)
}

// lock returns the time and locks mu, in this order, because no clock may be read under a lock ([clock.Clock]).
func (s *Shards) lock() clock.Reading {
	now := s.config.Clock.Now()
	s.mu.Lock()
	return now
}

// List reads all Leases of the ring.
func (s *Shards) List(ctx context.Context) (version string, err error) {
	options := metav1.ListOptions{LabelSelector: shardstate.Selector(s.config.Ring).String(), Limit: 500}
	var leases []*coordinationv1.Lease
	for {
		page, err := kube.Bounded(ctx, func(ctx context.Context) (*coordinationv1.LeaseList, error) {
			return s.leases().List(ctx, options)
		})
		if err = kube.Versioned(page, err); err != nil {
			return "", s.failed("list", err)
		}
		for i := range page.Items {
			leases = append(leases, &page.Items[i])
		}
		if version == "" {
			version = page.ResourceVersion
		}
		if page.Continue == "" {
			break
		}
		options.Continue = page.Continue
	}
	now := s.lock()
	var ignored []error
	for _, l := range leases {
		ignored = append(ignored, weightIgnored(s.tracker.Lease(l.Name), l))
	}
	changed := s.tracker.List(leases, now)
	for _, l := range leases {
		s.attest(l.Name)
	}
	s.mu.Unlock()
	s.warn(errors.Join(ignored...))
	if len(changed) > 0 {
		s.tell()
	}
	return version, nil
}

// failed adds the request to an error.
func (s *Shards) failed(verb string, err error) error {
	return &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: coordinationv1.Resource("leases"), Namespace: s.config.Namespace},
		Object: "the shards' Leases in namespace " + s.config.Namespace, Err: err,
	}
}

func (s *Shards) tell() {
	notify(s.changed)
	notify(s.due)
}

// notify sends without blocking to a channel of capacity 1.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run follows the Leases from a listed version until ctx ends. Where watching is not allowed, it
// lists repeatedly.
func (s *Shards) Run(ctx context.Context, version string) {
	pause, failures := minPause, kube.NewFailures(s.config.Log, s.config.Clock)
	for ctx.Err() == nil {
		next, err := s.follow(ctx, version)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			version, pause = next, minPause
			failures.Over("watch")
			continue
		}
		if !apierrors.IsResourceExpired(err) {
			kube.RoleOf(ctx).Refused(err)
			failures.Note("watch", err,
				"watch of the shards' Leases failed, polling until it recovers", "")
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, 2*time.Second)
		if version, err = s.List(ctx); err != nil {
			version = "" // an empty version: the watch would begin anywhere
		}
	}
}

// WatchSeconds is after how many seconds a watch is replaced, because a dead connection may stay
// silent forever.
const WatchSeconds int64 = 300

// follow reads one watch to its end.
func (s *Shards) follow(ctx context.Context, version string) (string, error) {
	if version == "" {
		var err error
		if version, err = s.List(ctx); err != nil {
			return "", err
		}
	}
	w, err := kube.Watch(ctx, clock.System(), kube.RequestTimeout,
		func(ctx context.Context) (watch.Interface, error) {
			return s.leases().Watch(ctx, metav1.ListOptions{
				LabelSelector: shardstate.Selector(s.config.Ring).String(), ResourceVersion: version,
				AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(WatchSeconds),
			})
		})
	if err != nil {
		return "", s.failed("watch", err)
	}
	defer w.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			return version, nil
		case e, ok := <-w.ResultChan():
			if !ok {
				if time.Since(began) < time.Second {
					return "", fmt.Errorf("watch the shards' Leases in namespace %s: the server ended it at once",
						s.config.Namespace)
				}
				return version, nil
			}
			if e.Type == watch.Error {
				return "", s.failed("watch", apierrors.FromObject(e.Object))
			}
			l, ok := e.Object.(*coordinationv1.Lease)
			if !ok {
				return "", fmt.Errorf("watch the shards' Leases: got a %T", e.Object)
			}
			version = l.ResourceVersion
			if e.Type != watch.Bookmark && l.Labels[shardlease.RingLabel] == s.config.Ring {
				// fake clientsets ignore selectors
				s.see(l, e.Type == watch.Deleted)
			}
		}
	}
}

// see takes a version of a Lease.
func (s *Shards) see(l *coordinationv1.Lease, deleted bool) {
	now := s.lock()
	ignored := weightIgnored(s.tracker.Lease(l.Name), l)
	changed := s.observe(l.Name, func() bool {
		if deleted {
			delete(s.asked, l.Name) // otherwise it would be created again forever; a decision that needs it asks again
			return s.tracker.ObserveAbsence(l.Name, now)
		}
		return s.tracker.Observe(l, now)
	})
	s.attest(l.Name)
	s.mu.Unlock()
	s.warn(ignored)
	if changed {
		s.tell()
	}
}

// weightIgnored returns an error if the weight that an administrator has given the shard of a Lease is
// invalid, unless it was so in the version before.
func weightIgnored(before, now *coordinationv1.Lease) error {
	_, was := shardlease.WeightOf(before)
	_, is := shardlease.WeightOf(now)
	if is == nil || was != nil && was.Error() == is.Error() {
		return nil
	}
	return fmt.Errorf("%s: %w", now.Name, is)
}

func (s *Shards) warn(ignored error) {
	if ignored != nil {
		s.config.Log.Warn("weights on Leases are ignored, shards keep their own", zap.Error(ignored))
	}
}

// WatchPods releases the Leases of shards that die with their container, until ctx ends. Call stop.
func (s *Shards) WatchPods(ctx context.Context) (stop func()) {
	now := s.lock()
	defer s.mu.Unlock()
	s.witness = leasehold.NewWitness(ctx, s.config.Kube, leasehold.Config{
		Timing: lease.Timing{Duration: s.config.LeaseDuration}.WithDefaults(), Clock: s.config.Clock, Log: s.config.Log,
	})
	for _, shard := range s.tracker.Shards(now) {
		s.attest(shard)
	}
	return s.witness.Close
}

// attest passes the Lease of a shard to the witness. The caller holds mu.
func (s *Shards) attest(shard string) {
	if s.witness != nil {
		record := lease.RecordOf(s.tracker.Lease(shard))
		s.witness.See(types.NamespacedName{Namespace: s.config.Namespace, Name: shard}, record)
	}
}

// observe makes the tracker take in a version of a shard's Lease, and reports whether something
// changed that decisions depend on. The caller holds mu.
func (s *Shards) observe(shard string, take func() (changed bool)) bool {
	before := s.tracker.Lease(shard)
	changed := take()
	now := s.tracker.Lease(shard)
	was, _ := shardlease.WeightOf(before)
	is, _ := shardlease.WeightOf(now)
	return changed || was != is || shardlease.Idle(before) != shardlease.Idle(now)
}

// get reads the Lease of a shard. It returns nil if the Lease does not exist.
func (s *Shards) get(ctx context.Context, shard string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l, err := s.leases().Get(ctx, shard, metav1.GetOptions{})
	err = kube.Named(l, shard, err)
	switch {
	case kube.Absent(err, coordinationv1.Resource("leases"), shard):
		return nil, nil
	case err != nil:
		return nil, s.failed("get", err)
	}
	return l, nil
}

// look reads the Lease of a shard, without waiting for the watch.
func (s *Shards) look(ctx context.Context, shard string) error {
	l, err := s.get(ctx, shard)
	if err != nil {
		return err
	}
	if l == nil {
		s.see(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: shard}}, true)
	} else {
		s.see(l, false)
	}
	return nil
}

// reread reads the Lease of an owner epoch, after an object that names the epoch was read.
func (s *Shards) reread(ctx context.Context, t protocol.OwnerEpoch) error {
	l, err := s.get(ctx, t.Shard)
	if err != nil {
		return err
	}
	now := s.lock()
	changed := s.observe(t.Shard, func() bool { return s.tracker.ObserveRead(t.Shard, epochOf(t), l, now) })
	s.mu.Unlock()
	if changed {
		s.tell()
	}
	return nil
}

// Ask records that a decision depends on whether an owner epoch has ended. Beyond maxAsked it does
// nothing, because the next scan asks again.
func (s *Shards) Ask(t protocol.OwnerEpoch) {
	s.mu.Lock()
	_, known := s.asked[t.Shard]
	added := !known && len(s.asked) < maxAsked
	if added {
		s.asked[t.Shard] = struct{}{}
	}
	s.mu.Unlock()
	if added {
		s.tell()
	}
}

// await waits until the shards' Leases have changed, and reports whether they have. It waits for at
// most wait, or an hour if wait is zero.
func (s *Shards) await(ctx context.Context, wait time.Duration) (changed bool) {
	if wait <= 0 {
		wait = time.Hour
	}
	timer := s.config.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	case <-s.changed:
		return true
	}
	return false
}

// Await waits until the membership may have changed.
func (s *Shards) Await(ctx context.Context) {
	_, wait := s.members()
	s.await(ctx, wait)
}
