package membership

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

func planOf(t *testing.T, h ...protocol.Membership) *Plan {
	t.Helper()
	p, err := newPlan(protocol.HistoryOf(h...), h[len(h)-1], nil)
	require.NoError(t, err)
	return p
}

func TestOwnersAreThoseUnderAnyMembershipSinceTheRingWasSettled(t *testing.T) {
	settled := planOf(t, protocol.NewMembership(inA, inB))
	unsettled := planOf(t, protocol.NewMembership(inA, inB), protocol.NewMembership(inA, inB, inC),
		protocol.NewMembership(inB, inC))
	for hash := range uint64(1000) {
		hash *= 0x9e3779b97f4a7c15
		assert.Equal(t, []protocol.OwnerEpoch{settled.Target(hash)}, settled.owners("", hash))
		owners := unsettled.owners("", hash)
		assert.Equal(t, unsettled.Target(hash), owners[len(owners)-1])
		assert.Contains(t, owners, settled.Target(hash))
	}
}

// drawn is a series of memberships. By weights, those of a shard differ; otherwise a shard has always the same.
func drawn(t *rapid.T, longest int, weights bool) []protocol.Membership {
	var all []protocol.Membership
	for range rapid.IntRange(1, longest).Draw(t, "memberships") {
		var m protocol.Membership
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 1, 6,
			rapid.ID).Draw(t, "members") {
			weight := 1 + int(name[0]-'a')%3
			if weights {
				weight = rapid.IntRange(1, 4).Draw(t, "weight")
			}
			m = append(m, protocol.NewMember(protocol.OwnerEpoch{
				Shard: name, LeaseUID: "l", Epoch: rapid.Int64Range(1, 3).Draw(t, "epoch"),
			}, weight))
		}
		all = append(all, m.Sorted())
	}
	return all
}

func ownerUnder(t *rapid.T, m protocol.Membership, hash uint64) protocol.OwnerEpoch {
	r, err := RingOf(greatestWeights(m))
	require.NoError(t, err)
	name, _ := r.OwnerHash(hash)
	owner, _ := m.Member(name)
	return owner
}

// One hash ring for all former memberships gives the same owners as a hash ring for each.
func TestOwnersUnderManyMembershipsAreThoseOfARingForEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := protocol.HistoryOf()
		for _, m := range drawn(t, 70, false) {
			h = h.With(m)
		}
		p, err := newPlan(h, h.Memberships[len(h.Memberships)-1], nil)
		require.NoError(t, err)
		for range 5 {
			hash := rapid.Uint64().Draw(t, "hash")
			var want []protocol.OwnerEpoch
			for _, m := range h.Memberships {
				if owner := ownerUnder(t, m, hash); !slices.Contains(want, owner) {
					want = append(want, owner)
				}
			}
			target := p.Target(hash)
			want = append(slices.DeleteFunc(want, func(t protocol.OwnerEpoch) bool { return t == target }), target)
			require.Equal(t, want, p.owners("", hash))
		}
	})
}

// Whatever weights shards had, all that may have owned a key are known, and stay known when the ring has settled
// as long as they may get it by a drain that was sent before.
func TestOwnersUnderOtherWeightsAreKnown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memberships := drawn(t, 8, true)
		h := protocol.HistoryOf()
		for _, m := range memberships {
			h = h.With(m)
		}
		last := memberships[len(memberships)-1]
		p, err := newPlan(h, last, nil)
		require.NoError(t, err)
		settled, err := newPlan(h.Settled(last, func(t protocol.OwnerEpoch) bool {
			return !slices.Contains(last.OwnerEpochs(), t)
		}), last, nil)
		require.NoError(t, err)
		again, err := protocol.ParseHistory(h.Encode())
		require.NoError(t, err)
		require.Equal(t, h, again)
		for range 20 {
			hash := rapid.Uint64().Draw(t, "hash")
			target := p.Target(hash)
			require.Equal(t, target, ownerUnder(t, last, hash))
			require.Equal(t, target, settled.Target(hash))
			for _, m := range memberships {
				owner := ownerUnder(t, m, hash)
				require.Contains(t, p.owners("", hash), owner)
				epochs := m.OwnerEpochs()
				if slices.Contains(epochs, target) && slices.Contains(last.OwnerEpochs(), owner) {
					require.Contains(t, settled.owners("", hash), owner, "the target may hand over to it")
				}
			}
		}
	})
}

// A plan for a ring of 300 shards that is rolled over takes no more memory than one of twice as
// many shards. It would take gigabytes with a ring for each membership.
func TestAPlanOfManyMembershipsIsSmall(t *testing.T) {
	h := rolledOver(300)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p, err := newPlan(h, h.Memberships[len(h.Memberships)-1], nil)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	taken := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	assert.Greater(t, taken, int64(1<<20))
	assert.Less(t, taken, int64(64<<20))
	assert.NotEmpty(t, p.owners("", 1))
	runtime.KeepAlive(h)
}

// rolledOver returns the history of a ring of n shards after a roll-out. Each new shard joined
// before the old one left.
func rolledOver(n int) protocol.History {
	var members []protocol.OwnerEpoch
	for i := range n {
		members = append(members,
			protocol.OwnerEpoch{Shard: fmt.Sprintf("controller-7d9f8b6c5-%05d", i), LeaseUID: "lease", Epoch: 1})
	}
	h := protocol.HistoryOf(protocol.NewMembership(members...))
	for i := range n {
		next := protocol.OwnerEpoch{Shard: fmt.Sprintf("controller-5c4b9d8f7-%05d", i), LeaseUID: "lease", Epoch: 1}
		h.Memberships = append(h.Memberships, protocol.NewMembership(append(slices.Clone(members), next)...))
		members[i] = next
		h.Memberships = append(h.Memberships, protocol.NewMembership(members...))
	}
	return h
}

func BenchmarkPlanAfterARollOut(b *testing.B) {
	for _, n := range []int{10, 100, 300} {
		b.Run(fmt.Sprint("shards=", n), func(b *testing.B) {
			h := rolledOver(n)
			b.ReportMetric(float64(len(h.Encode())), "stored-B")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := newPlan(h, h.Memberships[len(h.Memberships)-1], nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnEarlierLifeOfAnOwnerIsAnotherOwner(t *testing.T) {
	p := planOf(t, protocol.NewMembership(inA), protocol.NewMembership(inA2))
	assert.Equal(t, []protocol.OwnerEpoch{inA, inA2}, p.owners("", 1))
}

func TestObjectsThatWereNotPlacedHaveOwnersOfTheirOwn(t *testing.T) {
	p, err := newPlan(protocol.History{
		Memberships: []protocol.Membership{both},
		Displaced:   protocol.Displaced{"x": {inA, inC}, "y": {inA}},
	}, both, nil)
	require.NoError(t, err)
	assert.Subset(t, p.owners("x", 1), []protocol.OwnerEpoch{inA, inC})
	assert.NotContains(t, p.owners("z", 1), inC)
}
