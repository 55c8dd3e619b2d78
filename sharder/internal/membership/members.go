package membership

import (
	"maps"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// idleGrace is how long the objects of a shard that has restarted wait until something in its new process
// works on objects.
const idleGrace = time.Minute

// members returns the present members, and after how long they may change although no Lease
// changes, or zero if they will not. Shards of weight 0, or that come and go, are members only
// if there are no others.
func (s *Shards) members() (protocol.Membership, time.Duration) {
	now := s.lock()
	defer s.mu.Unlock()
	present := map[string]protocol.OwnerEpoch{}
	wait, _ := s.tracker.Next(now)
	for _, name := range s.tracker.Members(now) {
		if t, ok := s.epoch(name, now); ok {
			present[name] = t
		} else if t, ok := s.last[name]; ok { // its Lease was deleted or emptied by others: it may be back any moment
			present[name] = t
		}
	}
	s.leaveOutIdle(present, &wait, now)
	for name := range s.last {
		if _, ok := present[name]; !ok {
			s.damping.depart(name, now.Monotonic)
		}
	}
	s.last = present
	var ranks [4]protocol.Membership // the first that is not empty has the members
	for name, t := range present {
		rank := 0
		weight, _ := shardlease.WeightOf(s.tracker.Lease(name)) // see has warned of an invalid annotation
		if weight == 0 {
			rank, weight = 1, shardlease.DefaultWeight
		}
		if delay := s.damping.wait(name, now.Monotonic); delay > 0 {
			rank += 2
			if wait == 0 || delay < wait {
				wait = delay
			}
		}
		ranks[rank] = append(ranks[rank], protocol.NewMember(t, weight))
	}
	for _, members := range ranks {
		if len(members) > 0 {
			s.damping.admit(members)
			return members.Sorted(), wait
		}
	}
	return nil, wait
}

// leaveOutIdle removes from the present shards those in whose processes nothing works on objects. A
// member that has restarted stays one in its last epoch for idleGrace, so that its objects wait for it.
// The caller holds mu.
func (s *Shards) leaveOutIdle(present map[string]protocol.OwnerEpoch, wait *time.Duration, now clock.Reading) {
	before := s.idle
	s.idle = map[string]clock.Reading{}
	for name := range present {
		if !shardlease.Idle(s.tracker.Lease(name)) {
			continue
		}
		since, ok := before[name]
		if !ok {
			since = now
		}
		s.idle[name] = since
		last, member := s.last[name]
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
func (s *Shards) matured() bool {
	now := s.lock()
	defer s.mu.Unlock()
	before := s.passed
	s.passed = s.tracker.Passed(now)
	return !maps.Equal(before, s.passed)
}

// Names returns the names of all shards that have a Lease or were asked for.
func (s *Shards) Names() []string {
	now := s.lock()
	defer s.mu.Unlock()
	names := s.tracker.Shards(now)
	for name := range s.asked {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// present returns all shards with their present epochs, for a ring whose history was lost.
func (s *Shards) present() []protocol.OwnerEpoch {
	now := s.lock()
	defer s.mu.Unlock()
	var all []protocol.OwnerEpoch
	for _, name := range s.tracker.Shards(now) {
		if t, ok := s.epoch(name, now); ok {
			all = append(all, t)
		}
	}
	return all
}

// epoch returns the present epoch of a shard. The caller holds mu.
func (s *Shards) epoch(shard string, now clock.Reading) (protocol.OwnerEpoch, bool) {
	e, ok := s.tracker.Epoch(shard, now)
	return protocol.OwnerEpoch{Shard: shard, LeaseUID: e.LeaseUID, Epoch: e.Number}, ok
}
