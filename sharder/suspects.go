package sharder

import (
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/internal/membership"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	// suspectFor is how soon after an assignment the owner must crash for that to count.
	suspectFor = 3 * time.Minute
	// minHold and maxHold bound how long a suspect is held back. The time doubles with each crash after
	// the second.
	minHold = 30 * time.Second
	maxHold = 5 * time.Minute
	// maxSuspects bounds how many objects are held back at a time. If there are more, shards crash
	// for another reason.
	maxSuspects = 100
)

// suspects are the objects that are held back because several shards in a row have crashed while
// they had the object.
type suspects struct {
	objects *objects
	shards  *membership.Shards

	mu   sync.Mutex
	held map[types.UID]suspect // guarded by mu
}

func newSuspects(o *objects, shards *membership.Shards) *suspects {
	return &suspects{objects: o, shards: shards, held: map[types.UID]suspect{}}
}

// suspect is an object as it was when it began to be held back.
type suspect struct {
	protocol.Root
	until time.Time
}

// judge completes a decision to assign an object that had an owner. If several shards in a row have
// crashed while they had the object, judge decides to take it from the last one, and then returns a
// [heldError] for a while.
func (s *suspects) judge(sit protocol.Situation, d protocol.Decision) (protocol.Decision, error) {
	now := time.Now()
	if sit.Record.State == protocol.StateOwned {
		d.Record.Crashes = s.crashesOf(sit, now)
		if d.Record.Crashes.Suspicious() && s.room() {
			return sit.Suspend(d.Record.Crashes), nil
		}
		return d, nil
	}
	if !sit.HeldBack() {
		return d, nil
	}
	held, begun := s.hold(sit.Root, now)
	if begun {
		s.reportHeldBack(held, now)
	}
	switch {
	case sit.ChangedSince(held.Root):
		return d, nil
	case held.until.After(now):
		return d, heldError{until: held.until, unless: &held.Root}
	}
	d.Record.Crashes = crashes(sit, sit.Record.Crashes.Count, now)
	return d, nil
}

// crashesOf returns the crashes in the next record of an object whose owner has ended.
func (s *suspects) crashesOf(sit protocol.Situation, now time.Time) *protocol.Crashes {
	before := sit.Record.Crashes
	crash, ok := s.shards.CrashOf(sit.Record.Owner())
	switch {
	case !ok: // it has ended in order
		return nil
	case crash.Complete && !crash.AtWork(sit.UID):
		if before == nil {
			return nil
		}
		return crashes(sit, before.Count, now)
	case before != nil && now.Unix()-before.At < int64(suspectFor/time.Second):
		return crashes(sit, before.Count+1, now)
	}
	return crashes(sit, 1, now)
}

// crashes returns a count for the record that assigns an object now.
func crashes(sit protocol.Situation, count int, now time.Time) *protocol.Crashes {
	if !sit.Target.Renewing { // it may have died before it got the object
		return &protocol.Crashes{Count: count}
	}
	return &protocol.Crashes{Count: count, At: now.Unix()}
}

// room reports whether one more object can be held back.
func (s *suspects) room() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) < maxSuspects
}

// hold returns the object as it was when it began to be held back, and whether that is now.
func (s *suspects) hold(o protocol.Root, now time.Time) (held suspect, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, other := range s.held {
		if now.Sub(other.until) > maxHold { // it is gone, or has an owner
			delete(s.held, uid)
		}
	}
	if held, ok := s.held[o.UID]; ok && held.Record.Owner() == o.Record.Owner() {
		return held, false
	}
	longest := min(minHold<<min(o.Record.Crashes.Count-2, 10), maxHold)
	held = suspect{o, now.Add(longest - rand.N(longest/4))} // not together with those that it was with
	s.held[o.UID] = held
	return held, true
}

// reportHeldBack reports that an object begins to be held back.
func (s *suspects) reportHeldBack(held suspect, now time.Time) {
	r, wait := held.Record, held.until.Sub(now).Round(time.Second)
	s.objects.log(held.Ref).Warn("an object is held back, because shards that had it have crashed one after another",
		zap.Int("crashes", r.Crashes.Count), zap.String("last", r.Shard), zap.Duration("for", wait))
	s.objects.config.Hooks.OnHeldBack(HeldBack{
		Object: s.objects.ref(held.Ref), Crashes: r.Crashes.Count, Shard: r.Shard, Until: held.until,
	})
	s.objects.warn(held.Ref, held.UID, "HeldBack", "Assign",
		"%d shards have crashed one after another while they had this object, the last one was %s: "+
			"it gets the next owner in %v, or when it is changed", r.Crashes.Count, r.Shard, wait)
}
