package ring_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/ring"
)

// anyName is any bytes, or names that differ little, end in digits, or are each other's beginnings.
var (
	anyBytes = rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "bytes"))
	})
	anyName = rapid.OneOf(
		anyBytes.Filter(func(s string) bool { return s != "" }),
		rapid.StringMatching(`(op|op-|op-1|op-11)[0-9]{0,3}`),
		// they collide
		rapid.SampledFrom([]string{
			"operator-48775", "operator-59464", "operator-replica",
			"daemons-\x16\x90\x15z\xdb\xb8e]",
		}),
	)
	anyMembers = rapid.SliceOfNDistinct(anyName, 1, 20, rapid.ID[string])
)

func TestPropertyPlacementIsAsDocumented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfN(anyName, 1, 20).Draw(t, "members") // may have duplicates
		tokens := rapid.IntRange(1, 50).Draw(t, "tokens")
		weights := rapid.MapOfN(rapid.OneOf(anyName, rapid.SampledFrom(members)), rapid.IntRange(1, 5), 0, 5).Draw(t,
			"weights")
		r, err := ring.New(members, ring.WithTokens(tokens), ring.WithWeights(weights))
		require.NoError(t, err)
		m := newModel(members, tokens, weights)

		key := anyBytes.Draw(t, "key")
		hash := xxhash.Sum64String(key)
		owner, ok := r.Owner(key)
		require.True(t, ok)
		require.Equal(t, m.owners(hash, 1)[0], owner)
		owner, _ = r.OwnerBytes([]byte(key))
		require.Equal(t, m.owners(hash, 1)[0], owner)
		n := rapid.IntRange(0, 25).Draw(t, "n")
		require.Equal(t, m.owners(hash, n), r.Owners(nil, key, n))

		hash = rapid.Uint64().Draw(t, "hash") // also near the ends, which a key's hash is not
		owner, _ = r.OwnerHash(hash)
		require.Equal(t, m.owners(hash, 1)[0], owner)
	})
}

func TestPropertyOrderAndDuplicatesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := anyMembers.Draw(t, "members")
		others := append(rapid.SliceOf(rapid.SampledFrom(members)).Draw(t, "duplicates"), members...)
		others = rapid.Permutation(others).Draw(t, "others")
		a, b := drawRing(t, members), drawRing(t, others)
		require.Empty(t, ring.Moves(a, b))
		require.Equal(t, a.Members(), b.Members())
	})
}

func TestPropertyJoinMovesOnlyToTheNewcomerAndLeaveOnlyFromTheLeaver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := anyMembers.Draw(t, "members")
		newcomer := anyName.Filter(func(s string) bool { return !slices.Contains(members, s) }).Draw(t, "newcomer")
		before, after := drawRing(t, members), drawRing(t, append(slices.Clone(members), newcomer))

		join := ring.Moves(before, after)
		for _, move := range join {
			require.Equal(t, newcomer, move.To)
			require.Contains(t, members, move.From)
		}
		require.InDelta(t, shares(after)[newcomer], fractions(join), 0) // exactly

		leave := ring.Moves(after, before)
		require.Len(t, leave, len(join))
		for i, move := range leave {
			require.Equal(t, ring.Move{From: newcomer, To: join[i].From, Fraction: join[i].Fraction}, move)
		}

		key := anyBytes.Draw(t, "key")
		was, _ := before.Owner(key)
		if is, _ := after.Owner(key); is != newcomer {
			require.Equal(t, was, is)
		}
	})
}

// With n members of v tokens each, a share is about 1/n, give or take 1/(n*sqrt(v)).
func TestPropertyJoinMovesAFairShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringN(1, 40, -1), 1, 30, rapid.ID[string]).Draw(t, "members")
		newcomer := rapid.StringN(1, 40, -1).Filter(func(s string) bool { return !slices.Contains(members, s) }).Draw(t,
			"newcomer")
		tokens := rapid.IntRange(100, 1000).Draw(t, "tokens")
		before, after := drawRing(t, members, ring.WithTokens(tokens)), drawRing(t,
			append(slices.Clone(members), newcomer), ring.WithTokens(tokens))
		ideal := 1 / float64(len(members)+1)
		require.InEpsilon(t, ideal, fractions(ring.Moves(before, after)), 7/math.Sqrt(float64(tokens)))
	})
}

func TestPropertyMovesAreWhatLookupsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.IntRange(1, 20)
		before := drawRing(t, rapid.SliceOfN(anyName, 0, 10).Draw(t, "before"),
			ring.WithTokens(tokens.Draw(t, "tokens before")))
		after := drawRing(t, rapid.SliceOfN(anyName, 0, 10).Draw(t, "after"),
			ring.WithTokens(tokens.Draw(t, "tokens after")))
		moves := ring.Moves(before, after)

		type pair struct{ from, to string }
		fraction := map[pair]float64{}
		for i, move := range moves {
			require.NotEqual(t, move.From, move.To)
			require.Positive(t, move.Fraction)
			fraction[pair{move.From, move.To}] = move.Fraction
			if i > 0 {
				last := moves[i-1]
				require.True(t, last.From < move.From || last.From == move.From && last.To < move.To, "sorted")
			}
		}
		require.LessOrEqual(t, fractions(moves), 1.0)

		const samples = 2000
		count := map[pair]int{}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range samples {
			hash := random.Uint64()
			from, _ := before.OwnerHash(hash)
			to, _ := after.OwnerHash(hash)
			if from != to {
				require.Contains(t, fraction, pair{from, to})
				count[pair{from, to}]++
			}
		}
		for p, f := range fraction {
			require.InDelta(t, f, float64(count[p])/samples, 7*math.Sqrt(f/samples)+7.0/samples)
		}
	})
}

func TestPropertySharesAddUpToEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRing(t, anyMembers.Draw(t, "members"), ring.WithTokens(rapid.IntRange(1, 100).Draw(t, "tokens")))
		require.InDelta(t, 1, fractions(ring.Moves(&ring.Ring{}, r)), 0) // exactly
		require.InDelta(t, 1, fractions(ring.Moves(r, &ring.Ring{})), 0)
		require.Empty(t, ring.Moves(r, r))
	})
}

func TestPropertyBoundedLoads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := anyMembers.Draw(t, "members")
		weights := rapid.MapOfN(rapid.SampledFrom(members), rapid.IntRange(1, 4), 0, 3).Draw(t, "weights")
		r := drawRing(t, members, ring.WithTokens(20), ring.WithWeights(weights))
		keys := make([]string, rapid.IntRange(0, 300).Draw(t, "number of keys"))
		for i, offset := 0, rapid.IntRange(0, 1e6).Draw(t, "first key"); i < len(keys); i++ {
			keys[i] = key(offset + i)
		}
		epsilon := rapid.SampledFrom([]float64{0, 1e-9, 0.1, 0.25, 1, 1e300}).Draw(t, "epsilon")
		bounded, err := ring.NewBounded(r, keys, epsilon)
		require.NoError(t, err)

		total := 0
		weight := map[string]int{}
		for _, name := range members {
			weight[name] = max(1, weights[name])
			total += weight[name]
		}
		bound := func(name string) float64 {
			return math.Ceil((1 + epsilon) * float64(len(keys)*weight[name]) / float64(total))
		}
		onRing, assigned, diverted := map[string]int{}, map[string]int{}, map[string]string{}
		for _, key := range keys {
			was, _ := r.Owner(key)
			is, ok := bounded.Owner(key)
			require.True(t, ok)
			onRing[was]++
			assigned[is]++
			if was != is {
				diverted[key] = was
			}
		}
		last := map[string]uint64{} // the greatest hash of a key that was kept
		least := 0.0                // that must be diverted
		for name, n := range onRing {
			least += max(0, float64(n)-bound(name))
		}
		require.Len(t, diverted, int(least))
		require.Equal(t, int(least), bounded.Diverted())
		for name, n := range assigned {
			require.LessOrEqual(t, float64(n), bound(name), "of %q", name)
		}
		for _, key := range keys {
			was, _ := r.Owner(key)
			if _, gone := diverted[key]; !gone {
				last[was] = max(last[was], xxhash.Sum64String(key))
			}
		}
		for key, was := range diverted {
			require.Greater(t, xxhash.Sum64String(key), last[was], "a key with a greater hash was kept")
			require.InDelta(t, bound(was), float64(assigned[was]), 0, "is full")
			is, _ := bounded.Owner(key)
			for _, name := range r.Owners(nil, key, len(members)) {
				if name == is {
					break
				}
				require.InDelta(t, bound(name), float64(assigned[name]), 0, "would have been next")
			}
		}

		others := append(rapid.Permutation(keys).Draw(t, "order"), keys[:len(keys)/2]...)
		again, err := ring.NewBounded(r, others, epsilon)
		require.NoError(t, err)
		for _, key := range keys {
			a, _ := bounded.Owner(key)
			b, _ := again.Owner(key)
			require.Equal(t, a, b)
		}
	})
}

func TestBoundedOfManyKeys(t *testing.T) {
	r := newRing(t, names("m", 100))
	keys := make([]string, 20_000)
	for i := range keys {
		keys[i] = key(i)
	}
	bounded, err := ring.NewBounded(r, keys, 0.05)
	require.NoError(t, err)
	loads := map[string]int{}
	for _, k := range keys {
		owner, _ := bounded.Owner(k)
		loads[owner]++
	}
	most := 0
	for _, n := range loads {
		most = max(most, n)
	}
	assert.Equal(t, 210, most)
	assert.Less(t, bounded.Diverted(), 1000)
	owner, ok := bounded.Owner("not assigned")
	onRing, _ := r.Owner("not assigned")
	assert.True(t, ok)
	assert.Equal(t, onRing, owner)
}

func TestBoundedOnAnEmptyRing(t *testing.T) {
	bounded, err := ring.NewBounded(&ring.Ring{}, []string{"key"}, 0)
	require.NoError(t, err)
	_, ok := bounded.Owner("key")
	assert.False(t, ok)
}

func TestBadEpsilon(t *testing.T) {
	for _, epsilon := range []float64{-0.1, math.Inf(-1), math.Inf(1), math.NaN()} {
		_, err := ring.NewBounded(&ring.Ring{}, nil, epsilon)
		assert.ErrorContains(t, err, "ring: epsilon: must be a finite number, at least 0 (got ")
	}
}

func drawRing(t *rapid.T, members []string, opts ...ring.Option) *ring.Ring {
	r, err := ring.New(members, opts...)
	require.NoError(t, err)
	return r
}
