package sharder

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
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

// shardLeases holds the state of the ring's shards, by their Leases.
type shardLeases struct {
	client          coordinationclient.LeaseInterface
	namespace, ring string
	clock           clock.Clock
	log             *zap.Logger

	// changed is called when something has changed that decisions may depend on. It must not block.
	changed func()
	// due receives a value when a takeover may be due.
	due chan struct{}

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

// idleGrace is how long the objects of a shard that has restarted wait until something in its new process
// works on objects.
const idleGrace = time.Minute

// readTimeout bounds a request for one Lease.
const readTimeout = 10 * time.Second

// list reads all Leases of the ring.
func (ls *shardLeases) list(ctx context.Context) (version string, err error) {
	options := metav1.ListOptions{LabelSelector: shardstate.Selector(ls.ring).String(), Limit: 500}
	var leases []*coordinationv1.Lease
	for {
		page, err := bounded(ctx, func(ctx context.Context) (*coordinationv1.LeaseList, error) {
			return ls.client.List(ctx, options)
		})
		if err = kube.Versioned(page, err); err != nil {
			return "", ls.failed("list", err)
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
	now := ls.clock.Now()
	ls.mu.Lock()
	changed := ls.tracker.List(leases, now)
	for _, l := range leases {
		ls.attest(l.Name)
	}
	ls.mu.Unlock()
	if len(changed) > 0 {
		ls.tell()
	}
	return version, nil
}

// failed adds the request to an error.
func (ls *shardLeases) failed(verb string, err error) error {
	return &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: coordinationv1.Resource("leases"), Namespace: ls.namespace},
		Object: "the shards' Leases in namespace " + ls.namespace, Err: err,
	}
}

func (ls *shardLeases) tell() {
	ls.changed()
	select {
	case ls.due <- struct{}{}:
	default:
	}
}

// run follows the Leases from a listed version until ctx ends. Where watching is not allowed, it
// lists repeatedly.
func (ls *shardLeases) run(ctx context.Context, version string) {
	pause, failures := minPause, kube.NewFailures(ls.log, ls.clock)
	for ctx.Err() == nil {
		next, err := ls.follow(ctx, version)
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
		if version, err = ls.list(ctx); err != nil {
			version = "" // an empty version: the watch would begin anywhere
		}
	}
}

// follow reads one watch to its end.
func (ls *shardLeases) follow(ctx context.Context, version string) (string, error) {
	if version == "" {
		var err error
		if version, err = ls.list(ctx); err != nil {
			return "", err
		}
	}
	w, err := opened(ctx, func(ctx context.Context) (watch.Interface, error) {
		return ls.client.Watch(ctx, metav1.ListOptions{
			LabelSelector: shardstate.Selector(ls.ring).String(), ResourceVersion: version, AllowWatchBookmarks: true,
			TimeoutSeconds: ptr.To(watchSeconds),
		})
	})
	if err != nil {
		return "", ls.failed("watch", err)
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
						ls.namespace)
				}
				return version, nil
			}
			if e.Type == watch.Error {
				return "", ls.failed("watch", apierrors.FromObject(e.Object))
			}
			l, ok := e.Object.(*coordinationv1.Lease)
			if !ok {
				return "", fmt.Errorf("watch the shards' Leases: got a %T", e.Object)
			}
			version = l.ResourceVersion
			if e.Type != watch.Bookmark && l.Labels[shardlease.RingLabel] == ls.ring {
				// fake clientsets ignore selectors
				ls.see(l, e.Type == watch.Deleted)
			}
		}
	}
}

// see takes a version of a Lease.
func (ls *shardLeases) see(l *coordinationv1.Lease, deleted bool) {
	now := ls.clock.Now()
	ls.mu.Lock()
	changed := ls.observe(l.Name, func() bool {
		if deleted {
			delete(ls.asked, l.Name) // otherwise it would be created again forever; a decision that needs it asks again
			return ls.tracker.ObserveAbsence(l.Name, now)
		}
		return ls.tracker.Observe(l, now)
	})
	ls.attest(l.Name)
	ls.mu.Unlock()
	if changed {
		ls.tell()
	}
}

// watchPods releases the Leases of shards that die with their container, until ctx ends. Call stop.
func (ls *shardLeases) watchPods(ctx context.Context, client kubernetes.Interface, d time.Duration) (stop func()) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.witness = leasehold.NewWitness(ctx, client, leasehold.Config{
		Timing: lease.Timing{Duration: d}.WithDefaults(), Clock: ls.clock, Log: ls.log,
	})
	for _, shard := range ls.tracker.Shards(ls.clock.Now()) {
		ls.attest(shard)
	}
	return ls.witness.Close
}

// attest passes the Lease of a shard to the witness. The caller holds mu.
func (ls *shardLeases) attest(shard string) {
	if ls.witness != nil {
		record := lease.RecordOf(ls.tracker.Lease(shard))
		ls.witness.See(types.NamespacedName{Namespace: ls.namespace, Name: shard}, record)
	}
}

// observe makes the tracker take in a version of a shard's Lease, and reports whether something
// changed that decisions depend on. The caller holds mu.
func (ls *shardLeases) observe(shard string, take func() (changed bool)) bool {
	before := ls.tracker.Lease(shard)
	changed := take()
	now := ls.tracker.Lease(shard)
	return changed || shardlease.Drained(before) != shardlease.Drained(now) ||
		shardlease.Idle(before) != shardlease.Idle(now)
}

// get reads the Lease of a shard. It returns nil if the Lease does not exist.
func (ls *shardLeases) get(ctx context.Context, shard string) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l, err := ls.client.Get(ctx, shard, metav1.GetOptions{})
	err = kube.Named(l, shard, err)
	switch {
	case kube.Absent(err, coordinationv1.Resource("leases"), shard):
		return nil, nil
	case err != nil:
		return nil, ls.failed("get", err)
	}
	return l, nil
}

// look reads the Lease of a shard, without waiting for the watch.
func (ls *shardLeases) look(ctx context.Context, shard string) error {
	l, err := ls.get(ctx, shard)
	if err != nil {
		return err
	}
	if l == nil {
		ls.see(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: shard}}, true)
	} else {
		ls.see(l, false)
	}
	return nil
}

// reread reads the Lease of an owner epoch, after an object that names the epoch was read.
func (ls *shardLeases) reread(ctx context.Context, t protocol.OwnerEpoch) error {
	l, err := ls.get(ctx, t.Shard)
	if err != nil {
		return err
	}
	now := ls.clock.Now()
	ls.mu.Lock()
	changed := ls.observe(t.Shard, func() bool { return ls.tracker.ObserveRead(t.Shard, epochOf(t), l, now) })
	ls.mu.Unlock()
	if changed {
		ls.tell()
	}
	return nil
}

// ask records that a decision depends on whether an owner epoch has ended. Beyond maxAsked it does
// nothing, because the next scan asks again.
func (ls *shardLeases) ask(t protocol.OwnerEpoch) {
	ls.mu.Lock()
	_, known := ls.asked[t.Shard]
	added := !known && len(ls.asked) < maxAsked
	if added {
		ls.asked[t.Shard] = struct{}{}
	}
	ls.mu.Unlock()
	if added {
		ls.tell()
	}
}

// epochOf converts an owner epoch to that of package shardlease.
func epochOf(t protocol.OwnerEpoch) shardlease.Epoch {
	return shardlease.Epoch{LeaseUID: t.LeaseUID, Number: t.Epoch}
}

// membership returns the present members, and after how long they may change although no Lease
// changes, or zero if they will not. Shards that must be drained, or that come and go, are members
// only if there are no others.
func (ls *shardLeases) membership() (protocol.Membership, time.Duration) {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	present := map[string]protocol.OwnerEpoch{}
	wait, _ := ls.tracker.Next(now)
	for _, name := range ls.tracker.Members(now) {
		if e, ok := ls.tracker.Epoch(name, now); ok {
			present[name] = protocol.OwnerEpoch{Shard: name, LeaseUID: e.LeaseUID, Epoch: e.Number}
		} else if t, ok := ls.last[name]; ok { // its Lease was deleted or emptied by others: it may be back any moment
			present[name] = t
		}
	}
	ls.leaveOutIdle(present, &wait, now)
	for name := range ls.last {
		if _, ok := present[name]; !ok {
			ls.damping.depart(name, now.Monotonic)
		}
	}
	ls.last = present
	var ranks [4][]protocol.OwnerEpoch // the first that is not empty has the members
	for name, t := range present {
		rank := 0
		if shardlease.Drained(ls.tracker.Lease(name)) {
			rank++
		}
		if delay := ls.damping.wait(name, now.Monotonic); delay > 0 {
			rank += 2
			if wait == 0 || delay < wait {
				wait = delay
			}
		}
		ranks[rank] = append(ranks[rank], t)
	}
	for _, members := range ranks {
		if len(members) > 0 {
			ls.damping.admit(members)
			return protocol.NewMembership(members...), wait
		}
	}
	return nil, wait
}

// leaveOutIdle removes from the present shards those in whose processes nothing works on objects. A
// member that has restarted stays one in its last epoch for idleGrace, so that its objects wait for it.
// The caller holds mu.
func (ls *shardLeases) leaveOutIdle(present map[string]protocol.OwnerEpoch, wait *time.Duration, now clock.Reading) {
	before := ls.idle
	ls.idle = map[string]clock.Reading{}
	for name := range present {
		if !shardlease.Idle(ls.tracker.Lease(name)) {
			continue
		}
		since, ok := before[name]
		if !ok {
			since = now
		}
		ls.idle[name] = since
		last, member := ls.last[name]
		left := idleGrace - now.SinceAtMost(since)
		if !member || left <= 0 {
			delete(present, name)
			continue
		}
		present[name] = last
		if *wait == 0 || left < *wait {
			*wait = left
		}
	}
}

// matured reports whether time alone has changed something that decisions may depend on, since the
// last call.
func (ls *shardLeases) matured() bool {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	before := ls.passed
	ls.passed = ls.tracker.Passed(now)
	return !maps.Equal(before, ls.passed)
}

// situationOf returns the situation of a root under a plan.
func (ls *shardLeases) situationOf(o protocol.Root, p *plan) protocol.Situation {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := protocol.Situation{Root: o, Target: ls.claim(p.target(o.Hash), now)}
	switch {
	case !o.Recorded:
		s.Claims = ls.claims(p.owners(o.UID, o.Hash), now)
	case o.Record.State == protocol.StateOwned:
		s.Owner = ls.claim(o.Record.Owner(), now).EpochState
		resident, _ := p.members.Member(o.Record.Shard)
		s.Resident = resident == o.Record.Owner()
		fallthrough
	default:
		s.Claims = ls.claims(o.Record.Left, now)
	}
	return s
}

// resolve decides what to do about a root that was read before. It reads the Leases that
// the decision depends on.
func (ls *shardLeases) resolve(ctx context.Context, o protocol.Root, p *plan) (protocol.Situation, protocol.Decision,
	error,
) {
	var read []protocol.OwnerEpoch
	for {
		s := ls.situationOf(o, p)
		for _, t := range read { // unless known by now
			if ls.lifeOf(t) == protocol.EpochUnknown {
				s = s.Without(t, ls.suspects(o, p))
			}
		}
		d := protocol.Decide(s)
		if d.Verb != protocol.Reread || slices.Contains(read, d.About) {
			return s, d, nil
		}
		if err := ls.reread(ctx, d.About); err != nil {
			return s, d, err
		}
		read = append(read, d.About)
	}
}

// suspects are the shards that may have owned a root, whatever its record.
func (ls *shardLeases) suspects(o protocol.Root, p *plan) []protocol.Claim {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.claims(p.owners(o.UID, o.Hash), now)
}

// claims returns what is known of owner epochs. The caller holds mu.
func (ls *shardLeases) claims(all []protocol.OwnerEpoch, now clock.Reading) []protocol.Claim {
	claims := make([]protocol.Claim, len(all))
	for i, t := range all {
		claims[i] = ls.claim(t, now)
	}
	return claims
}

// claim returns what is known of an owner epoch. The caller holds mu.
func (ls *shardLeases) claim(t protocol.OwnerEpoch, now clock.Reading) protocol.Claim {
	c := protocol.Claim{OwnerEpoch: t}
	switch ls.tracker.EpochState(t.Shard, epochOf(t), now) {
	case shardstate.EpochEnded:
		c.EpochState = protocol.EpochEnded
	case shardstate.EpochUnknown:
		c.EpochState = protocol.EpochUnknown
	case shardstate.EpochNeedsTakeover:
		c.EpochState = protocol.EpochUnproven
	}
	e, ok := ls.tracker.Epoch(t.Shard, now)
	c.Current = ok && e == epochOf(t)
	c.Renewing = c.Current && ls.tracker.Renewing(t.Shard, now)
	return c
}

// living returns the owner of a key among the living of a plan; ok is false if it no longer renews
// its Lease.
func (ls *shardLeases) living(p *plan, hash uint64) (c protocol.Claim, ok bool) {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, name := range p.ring.OwnersHash(nil, hash, len(p.members)) {
		if t, ok := p.living.Member(name); ok {
			c = ls.claim(t, now)
			return c, c.Renewing
		}
	}
	return protocol.Claim{}, false
}

// renewing returns those of a membership that renew their Leases.
func (ls *shardLeases) renewing(m protocol.Membership) protocol.Membership {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m), func(t protocol.OwnerEpoch) bool { return !ls.claim(t, now).Renewing })
}

// crashOf returns the crash that has ended an owner epoch; ok is false if it has ended otherwise.
func (ls *shardLeases) crashOf(t protocol.OwnerEpoch) (c shardlease.Crash, ok bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	c, ok = shardlease.CrashOf(ls.tracker.Lease(t.Shard))
	return c, ok && c.Epoch == epochOf(t)
}

// lifeOf returns whether an owner epoch may still be at work.
func (ls *shardLeases) lifeOf(t protocol.OwnerEpoch) protocol.EpochState {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.claim(t, now).EpochState
}

// known returns the names of all shards that have a Lease or were asked for.
func (ls *shardLeases) known() []string {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	names := ls.tracker.Shards(now)
	for name := range ls.asked {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// presentEpochs returns all shards with their present epochs, for a ring whose history was lost.
func (ls *shardLeases) presentEpochs() []protocol.OwnerEpoch {
	now := ls.clock.Now()
	ls.mu.Lock()
	defer ls.mu.Unlock()
	var all []protocol.OwnerEpoch
	for _, name := range ls.tracker.Shards(now) {
		if e, ok := ls.tracker.Epoch(name, now); ok {
			all = append(all, protocol.OwnerEpoch{Shard: name, LeaseUID: e.LeaseUID, Epoch: e.Number})
		}
	}
	return all
}

// follow watches the shards' Leases until stop is called, so that a session that begins then has
// recorded how long each Lease has been unchanged. It must not run beside Run. stop waits until it
// has ended.
func (s *Sharder) follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.newShardLeases(s.tracker, func() {}).run(ctx, "")
	}()
	return func() {
		cancel()
		<-ended
	}
}

// newShardLeases returns the state of the shards without any decision. The tracker outlives it.
// Only one may be in use at a time.
func (s *Sharder) newShardLeases(tracker *shardstate.Tracker, changed func()) *shardLeases {
	c := s.config
	return &shardLeases{
		client: s.kube.CoordinationV1().Leases(c.Namespace), namespace: c.Namespace, ring: c.Ring, clock: c.clock,
		log:     c.Logger,
		changed: changed, due: make(chan struct{}, 1), tracker: tracker, asked: map[string]struct{}{},
	}
}
