package sharder

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/ring"
)

func planOf(t *testing.T, h ...membership) *plan {
	t.Helper()
	p, err := newPlan(historyOf(h...))
	require.NoError(t, err)
	return p
}

func TestOwnersAreThoseUnderAnyMembershipSinceTheRingWasSettled(t *testing.T) {
	settled := planOf(t, newMembership(inA, inB))
	unsettled := planOf(t, newMembership(inA, inB), newMembership(inA, inB, inC), newMembership(inB, inC))
	for hash := range uint64(1000) {
		hash *= 0x9e3779b97f4a7c15
		assert.Equal(t, []tenant{settled.target(hash)}, settled.owners("", hash))
		owners := unsettled.owners("", hash)
		assert.Equal(t, unsettled.target(hash), owners[len(owners)-1])
		assert.Contains(t, owners, settled.target(hash))
	}
}

// One ring for all memberships before says the same as one for each.
func TestOwnersUnderManyMembershipsAreThoseOfARingForEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := historyOf()
		for range rapid.IntRange(1, 70).Draw(t, "memberships") {
			var members []tenant
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}), 1, 6, rapid.ID).Draw(t, "members") {
				members = append(members, tenant{name, "l", rapid.Int64Range(1, 3).Draw(t, "epoch")})
			}
			h = h.with(newMembership(members...))
		}
		p, err := newPlan(h, ring.WithTokens(8))
		require.NoError(t, err)
		for range 20 {
			hash := rapid.Uint64().Draw(t, "hash")
			var want []tenant
			for _, m := range h.memberships {
				r, err := ring.New(m.names(), ring.WithTokens(8))
				require.NoError(t, err)
				name, _ := r.OwnerHash(hash)
				owner, _ := m.member(name)
				if !slices.Contains(want, owner) {
					want = append(want, owner)
				}
			}
			target := p.target(hash)
			want = append(slices.DeleteFunc(want, func(t tenant) bool { return t == target }), target)
			require.Equal(t, want, p.owners("", hash))
		}
	})
}

// A ring of 300 shards that is rolled over takes no more memory than one of twice as many shards:
// it was 815 MB.
func TestAPlanOfManyMembershipsIsSmall(t *testing.T) {
	h := rolledOver(300)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	p, err := newPlan(h)
	require.NoError(t, err)
	runtime.GC()
	runtime.ReadMemStats(&after)
	taken := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	assert.Greater(t, taken, int64(1<<20))
	assert.Less(t, taken, int64(16<<20))
	assert.NotEmpty(t, p.owners("", 1))
	runtime.KeepAlive(h)
}

// rolledOver is the history of a ring of n shards each of which was replaced by another one, which
// came before it went.
func rolledOver(n int) history {
	var members []tenant
	for i := range n {
		members = append(members, tenant{fmt.Sprintf("controller-7d9f8b6c5-%05d", i), "lease", 1})
	}
	h := historyOf(newMembership(members...))
	for i := range n {
		next := tenant{fmt.Sprintf("controller-5c4b9d8f7-%05d", i), "lease", 1}
		h.memberships = append(h.memberships, newMembership(append(slices.Clone(members), next)...))
		members[i] = next
		h.memberships = append(h.memberships, newMembership(members...))
	}
	return h
}

func BenchmarkPlanAfterARollOut(b *testing.B) {
	for _, n := range []int{10, 100, 300} {
		b.Run(fmt.Sprint("shards=", n), func(b *testing.B) {
			h := rolledOver(n)
			b.ReportMetric(float64(h.size()), "stored-B")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := newPlan(h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestAnEarlierLifeOfAnOwnerIsAnotherOwner(t *testing.T) {
	p := planOf(t, newMembership(inA), newMembership(inA2))
	assert.Equal(t, []tenant{inA, inA2}, p.owners("", 1))
}

func TestStraysAreAllThatIsWithNoMember(t *testing.T) {
	n := namesOf("r")
	p := planOf(t, newMembership(inA, inB))
	s := p.strays(n, selectorOf(t, "x=y"))
	assert.Equal(t, "shard.bellwether.dev/r notin (a,b),x=y", s.String())
	for label, want := range map[string]bool{"": true, "a": false, "b": false, "c": true} {
		assert.Equal(t, want, s.Matches(labels.Set{"x": "y", n.shard: label}), label)
	}
	assert.True(t, s.Matches(labels.Set{"x": "y"}))
	assert.False(t, s.Matches(labels.Set{}))
}

func TestASelectorThatIsTooLongForAURLIsNotUsed(t *testing.T) {
	var members []tenant
	for i := range 200 {
		members = append(members, tenant{fmt.Sprintf("controller-7d9f8b6c5-%05d", i), "l", 1})
	}
	s := planOf(t, newMembership(members...)).strays(namesOf("r"), labels.Everything())
	assert.Equal(t, "!shard.bellwether.dev/r", s.String())
}

func TestObjectsThatWereNotPlacedHaveOwnersOfTheirOwn(t *testing.T) {
	p, err := newPlan(history{[]membership{both}, apart{"x": {inA, inC}, "y": {inA}}})
	require.NoError(t, err)
	assert.Subset(t, p.owners("x", 1), []tenant{inA, inC})
	assert.NotContains(t, p.owners("z", 1), inC)
}
