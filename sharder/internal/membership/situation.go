package membership

import (
	"context"
	"slices"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// epochOf converts an owner epoch to that of package shardlease.
func epochOf(t protocol.OwnerEpoch) shardlease.Epoch {
	return shardlease.Epoch{LeaseUID: t.LeaseUID, Number: t.Epoch}
}

// SituationOf returns the situation of a root under a plan.
func (s *Shards) SituationOf(o protocol.Root, p *Plan) protocol.Situation {
	now := s.lock()
	defer s.mu.Unlock()
	sit := protocol.Situation{Root: o, Target: s.claim(p.Target(o.Hash), now)}
	_, sit.Diverted = p.diverted[o.Hash]
	switch {
	case !o.Recorded:
		sit.Claims = s.claims(p.owners(o.UID, o.Hash), now)
	case o.Record.State == protocol.StateOwned:
		sit.Owner = s.claim(o.Record.Owner(), now).EpochState
		resident, _ := p.Members.Member(o.Record.Shard)
		sit.Resident = resident == o.Record.Owner()
		fallthrough
	default:
		sit.Claims = s.claims(o.Record.Left, now)
	}
	return sit
}

// Resolve decides what to do about a root that was read before. It reads the Leases that the
// decision depends on.
func (s *Shards) Resolve(ctx context.Context, o protocol.Root, p *Plan) (protocol.Situation, protocol.Decision,
	error,
) {
	var read []protocol.OwnerEpoch
	for {
		sit := s.SituationOf(o, p)
		for _, t := range read { // unless known by now
			if s.stateOf(t) == protocol.EpochUnknown {
				sit = sit.Without(t, s.suspects(o, p))
			}
		}
		d := protocol.Decide(sit)
		if d.Verb != protocol.Reread || slices.Contains(read, d.About) {
			return sit, d, nil
		}
		if err := s.reread(ctx, d.About); err != nil {
			return sit, d, err
		}
		read = append(read, d.About)
	}
}

// suspects are the shards that may have owned a root, whatever its record.
func (s *Shards) suspects(o protocol.Root, p *Plan) []protocol.Claim {
	now := s.lock()
	defer s.mu.Unlock()
	return s.claims(p.owners(o.UID, o.Hash), now)
}

// claims returns what is known of owner epochs. The caller holds mu.
func (s *Shards) claims(all []protocol.OwnerEpoch, now clock.Reading) []protocol.Claim {
	claims := make([]protocol.Claim, len(all))
	for i, t := range all {
		claims[i] = s.claim(t, now)
	}
	return claims
}

// claim returns what is known of an owner epoch. The caller holds mu.
func (s *Shards) claim(t protocol.OwnerEpoch, now clock.Reading) protocol.Claim {
	c := protocol.Claim{OwnerEpoch: t}
	switch s.tracker.EpochState(t.Shard, epochOf(t), now) {
	case shardstate.EpochEnded:
		c.EpochState = protocol.EpochEnded
	case shardstate.EpochUnknown:
		c.EpochState = protocol.EpochUnknown
	case shardstate.EpochNeedsTakeover:
		c.EpochState = protocol.EpochUnproven
	}
	present, ok := s.epoch(t.Shard, now)
	c.Current = ok && present == t
	c.Renewing = c.Current && s.tracker.Renewing(t.Shard, now)
	return c
}

// living returns the owner of a key among the living of a plan; ok is false if it no longer renews
// its Lease.
func (s *Shards) living(p *Plan, hash uint64) (c protocol.Claim, ok bool) {
	now := s.lock()
	defer s.mu.Unlock()
	t, ok := p.livingTarget(hash)
	if !ok {
		return protocol.Claim{}, false
	}
	c = s.claim(t, now)
	return c, c.Renewing
}

// renewing returns those of a membership that renew their Leases.
func (s *Shards) renewing(m protocol.Membership) protocol.Membership {
	now := s.lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m), func(t protocol.Member) bool {
		return !s.claim(t.OwnerEpoch, now).Renewing
	})
}

// CrashOf returns the crash that has ended an owner epoch; ok is false if it has ended otherwise.
func (s *Shards) CrashOf(t protocol.OwnerEpoch) (c shardlease.Crash, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok = shardlease.CrashOf(s.tracker.Lease(t.Shard))
	return c, ok && c.Epoch == epochOf(t)
}

// stateOf returns whether an owner epoch may still be at work.
func (s *Shards) stateOf(t protocol.OwnerEpoch) protocol.EpochState {
	now := s.lock()
	defer s.mu.Unlock()
	return s.claim(t, now).EpochState
}

// StateOf returns whether an owner epoch that an object named may still be at work. It reads the
// Lease if that is unknown.
func (s *Shards) StateOf(ctx context.Context, t protocol.OwnerEpoch) (protocol.EpochState, error) {
	if state := s.stateOf(t); state != protocol.EpochUnknown {
		return state, nil
	}
	err := s.reread(ctx, t)
	return s.stateOf(t), err
}
