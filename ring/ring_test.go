package ring_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/ring"
)

func TestEmptyRingHasNoOwner(t *testing.T) {
	built, err := ring.New(nil)
	require.NoError(t, err)
	for name, r := range map[string]*ring.Ring{"built": built, "zero": {}} {
		t.Run(name, func(t *testing.T) {
			for _, owner := range []func() (string, bool){
				func() (string, bool) { return r.Owner("key") },
				func() (string, bool) { return r.OwnerBytes([]byte("key")) },
				func() (string, bool) { return r.OwnerHash(1) },
			} {
				name, ok := owner()
				assert.False(t, ok)
				assert.Empty(t, name)
			}
			assert.Equal(t, []string{"x"}, r.Owners([]string{"x"}, "key", 3))
			assert.Empty(t, r.Members())
			assert.Empty(t, ring.Moves(r, &ring.Ring{}))
		})
	}
}

func TestOneMemberOwnsEverything(t *testing.T) {
	for _, tokens := range []int{1, 2, ring.DefaultTokens} {
		r := newRing(t, []string{"a"}, ring.WithTokens(tokens))
		for _, hash := range []uint64{0, 1, math.MaxUint64 / 2, math.MaxUint64 - 1, math.MaxUint64} {
			owner, ok := r.OwnerHash(hash)
			assert.True(t, ok)
			assert.Equal(t, "a", owner)
		}
		assert.Equal(t, []ring.Move{{To: "a", Fraction: 1}}, ring.Moves(&ring.Ring{}, r))
	}
}

// Around each token, and where the circle closes, the model is asked too.
func TestOwnersOnBothSidesOfEachToken(t *testing.T) {
	for _, c := range []struct{ members, tokens int }{{2, 1}, {3, 1}, {7, 5}, {100, 20}} {
		members := names("m", c.members)
		r, m := newRing(t, members, ring.WithTokens(c.tokens)), newModel(members, c.tokens, nil)
		hashes := []uint64{0, math.MaxUint64}
		for _, token := range m.tokens {
			first := token.position << 16 // the lowest hash of this position
			hashes = append(hashes, first-1, first, first|0xffff, first+1<<16)
		}
		for _, hash := range hashes {
			owner, ok := r.OwnerHash(hash)
			assert.True(t, ok)
			require.Equal(t, m.owners(hash, 1)[0], owner, "%d members with %d tokens, hash %#x", c.members, c.tokens,
				hash)
		}
	}
}

func TestTenThousandMembers(t *testing.T) {
	members := names("daemon-", 10_000)
	r := newRing(t, members, ring.WithTokens(10))
	m := newModel(members, 10, nil)
	for i := range 100 {
		hash := xxhash.Sum64String(key(i))
		owner, _ := r.OwnerHash(hash)
		assert.Equal(t, m.owners(hash, 1)[0], owner)
	}
	all := r.Owners(nil, "key", math.MaxInt)
	assert.Len(t, all, 10_000)
	slices.Sort(all)
	assert.Equal(t, r.Members(), all)
}

func TestAsManyMembersAsThereMayBe(t *testing.T) {
	members := names("m", ring.MaxMembers)
	r := newRing(t, members, ring.WithTokens(1))
	m := newModel(members, 1, nil)
	last := m.tokens[len(m.tokens)-1]
	for _, hash := range []uint64{
		0, last.position << 16, last.position<<16 + 1<<16, math.MaxUint64,
		xxhash.Sum64String("key"),
	} {
		owner, _ := r.OwnerHash(hash)
		assert.Equal(t, m.owners(hash, 1)[0], owner)
	}
	assert.Len(t, r.Owners(nil, "key", math.MaxInt), ring.MaxMembers)
}

// The two names have a token at the same position: 0x694dc66ed93d.
func TestTokensAtOnePositionAreInOrderOfNames(t *testing.T) {
	const position = 0x694dc66ed93d << 16
	low, high := "operator-48775", "operator-59464"
	for _, members := range [][]string{{low, high}, {high, low}} {
		both := newRing(t, members)
		owner, _ := both.OwnerHash(position)
		assert.Equal(t, low, owner)
		assert.Contains(t, newModel(members, ring.DefaultTokens, nil).tokens, modelToken{position >> 16, high})

		owner, _ = newRing(t, []string{high, "x"}).OwnerHash(position)
		assert.Equal(t, high, owner, "has been hidden by the lower name")
	}
}

// The two names have the same xxHash64, and so all their tokens in common.
func TestCraftedNamesDoNotMakeTheOrderMatter(t *testing.T) {
	low, high := "daemons-\x16\x90\x15z\xdb\xb8e]", "operator-replica"
	require.Equal(t, xxhash.Sum64String(low), xxhash.Sum64String(high))
	a := newRing(t, []string{low, high, "x", "y"})
	b := newRing(t, []string{"y", high, low, "x", high})
	assert.Empty(t, ring.Moves(a, b))
	shares := shares(a)
	assert.Positive(t, shares[low])
	assert.Zero(t, shares[high])
	assert.Empty(t, ring.Moves(a, newRing(t, []string{low, "x", "y"})))
	assert.InDelta(t, shares[low], fractions(ring.Moves(a, newRing(t, []string{high, "x", "y"}))), 0)
}

// Concatenation would make one token of the 10th of "op-1" and the 0th of "op-11".
func TestNamesThatEndInNumbersHaveNoTokensInCommon(t *testing.T) {
	members := names("op-", 200)
	tokens := newModel(members, 200, nil).tokens
	for i, token := range tokens[1:] {
		require.NotEqual(t, tokens[i].position, token.position, "of %s and %s", tokens[i].member, token.member)
	}
}

func TestMembersAreSortedAndTheCallers(t *testing.T) {
	given := []string{"b", "a", "b", "c", "a"}
	r := newRing(t, given)
	assert.Equal(t, []string{"b", "a", "b", "c", "a"}, given)
	members := r.Members()
	assert.Equal(t, []string{"a", "b", "c"}, members)
	members[0] = "x"
	assert.Equal(t, []string{"a", "b", "c"}, r.Members())
	given[0] = "x"
	assert.Equal(t, []string{"a", "b", "c"}, r.Members())
}

func TestOwnersAppends(t *testing.T) {
	r := newRing(t, []string{"a", "b", "c"})
	for _, c := range []struct{ n, want int }{
		{math.MinInt, 0},
		{-1, 0},
		{0, 0},
		{1, 1},
		{2, 2},
		{3, 3},
		{4, 3},
		{math.MaxInt, 3},
	} {
		got := r.Owners([]string{"x"}, "key", c.n)
		assert.Equal(t, "x", got[0])
		assert.Len(t, got, 1+c.want)
	}
}

func TestOwnersTakesNothingInDstForASuccessor(t *testing.T) {
	members := names("m", 12)
	r := newRing(t, members)
	for i := range 100 {
		for _, n := range []int{3, 8, 12} {
			want := slices.Concat(members, r.Owners(nil, key(i), n))
			require.Equal(t, want, r.Owners(slices.Clone(members), key(i), n))
		}
	}
}

// The successors are who would own the key if those before them left.
func TestSuccessorsInherit(t *testing.T) {
	members := names("m", 12)
	for i := range 50 {
		left := slices.Clone(members)
		for _, heir := range newRing(t, members).Owners(nil, key(i), len(members)) {
			owner, _ := newRing(t, left).Owner(key(i))
			require.Equal(t, heir, owner)
			left = slices.DeleteFunc(left, func(name string) bool { return name == heir })
		}
		assert.Empty(t, left)
	}
}

func TestWeightsChangeTheirMemberOnly(t *testing.T) {
	members := names("m", 10)
	weights := map[string]int{"m3": 2, "m4": 5, "no member": 7}
	option := ring.WithWeights(weights)
	weights["m3"] = -1 // the option has its own
	before := newRing(t, members, option)
	assert.InDelta(t, 5.0/15, shares(before)["m4"], 0.05)
	assert.InDelta(t, 1.0/15, shares(before)["m9"], 0.02)

	after := newRing(t, members, ring.WithWeights(map[string]int{"m3": 2, "m4": 6}))
	moves := ring.Moves(before, after)
	assert.Len(t, moves, 9)
	for _, move := range moves {
		assert.Equal(t, "m4", move.To)
	}
	assert.InDelta(t, shares(after)["m4"]-shares(before)["m4"], fractions(moves), 0)
}

func TestLookupsDoNotAllocate(t *testing.T) {
	k, dst := []byte(key(0)), make([]string, 0, 100)
	s := string(k)
	for _, members := range []int{1, 100, 1000} {
		r := newRing(t, names("m", members))
		for name, lookup := range map[string]func(){
			"Owner":      func() { r.Owner(s) },
			"OwnerBytes": func() { r.OwnerBytes(k) },
			"OwnerHash":  func() { r.OwnerHash(1) },
			"Owners 3":   func() { r.Owners(dst, s, 3) },
			"Owners 100": func() { r.Owners(dst, s, 100) },
		} {
			assert.Zero(t, testing.AllocsPerRun(100, lookup), "%s of %d members", name, members)
		}
	}
}

func TestMemoryPerToken(t *testing.T) {
	for _, c := range []struct{ members, tokens int }{
		{100, 100},
		{1000, 100},
		{100, ring.DefaultTokens},
		{1000, ring.DefaultTokens},
	} {
		members := names("m", c.members)
		before := heap()
		r := newRing(t, members, ring.WithTokens(c.tokens))
		perToken := float64(heap()-before) / float64(c.members*c.tokens)
		t.Logf("%d members with %d tokens: %.2f B per token", c.members, c.tokens, perToken)
		assert.Less(t, perToken, 16.0)
		assert.Greater(t, perToken, 8.0, "not measured")
		runtime.KeepAlive(r)
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one's finalizers freed
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func TestConcurrentUse(t *testing.T) {
	members := names("m", 50)
	r := newRing(t, members)
	bounded, err := ring.NewBounded(r, []string{key(0), key(1)}, 0)
	require.NoError(t, err)
	smaller := newRing(t, members[1:])
	want, _ := r.Owner(key(7))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				owner, _ := r.Owner(key(7))
				assert.Equal(t, want, owner)
				r.OwnerBytes([]byte(key(i)))
				r.Owners(nil, key(i), 1+i%20)
				bounded.Owner(key(i))
			}
			r.Members()
			ring.Moves(r, smaller)
		})
	}
	all.Wait()
}

func newRing(t testing.TB, members []string, opts ...ring.Option) *ring.Ring {
	t.Helper()
	r, err := ring.New(members, opts...)
	require.NoError(t, err)
	return r
}

func names(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// key is like those of objects: group, kind, namespace, name, UID; 70 bytes.
func key(i int) string {
	return fmt.Sprintf("apps/ReplicaSet/team-%02d/web-%08d/7c9e6679-7425-40de-944b-%012d", i%97, i, i)
}

// shares returns which fraction of all keys each member owns.
func shares(r *ring.Ring) map[string]float64 {
	shares := map[string]float64{}
	for _, move := range ring.Moves(&ring.Ring{}, r) {
		shares[move.To] = move.Fraction
	}
	return shares
}

func fractions(moves []ring.Move) float64 {
	sum := 0.0
	for _, move := range moves {
		sum += move.Fraction
	}
	return sum
}
