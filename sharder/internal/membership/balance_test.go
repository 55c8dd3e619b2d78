package membership

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// loads returns how many objects each shard has.
func loads(r *ring.Ring, objects map[uint64]int, diverted map[uint64]string) map[string]int {
	has := map[string]int{}
	for hash, n := range objects {
		shard, ok := diverted[hash]
		if !ok {
			shard, _ = r.OwnerHash(hash)
		}
		has[shard] += n
	}
	return has
}

// Whatever was diverted before, and whichever shards have come and gone, no shard has more than it may, or less.
// The result stands: the next time, nothing moves.
func TestBalanced(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	rapid.Check(t, func(t *rapid.T) {
		weights := map[string]int{}
		total := 0
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 6, rapid.ID).Draw(t, "members") {
			weights[name] = rapid.SampledFrom([]int{1, 5, 100, 300}).Draw(t, "weight")
			total += weights[name]
		}
		objects := map[uint64]int{}
		for _, hash := range rapid.SliceOfNDistinct(rapid.Uint64(), 0, 60, rapid.ID).Draw(t, "keys") {
			objects[hash] = 1
		}
		before := map[uint64]string{}
		for hash := range objects {
			if rapid.Bool().Draw(t, "diverted") {
				before[hash] = rapid.SampledFrom(names).Draw(t, "to")
			}
		}
		factor := rapid.SampledFrom([]float64{1, 1.1, 1.25, 2}).Draw(t, "factor")
		b := &balance{factor: factor, objects: objects}
		r, err := RingOf(weights)
		require.NoError(t, err)
		after := b.diverted(r, weights, before)
		for name, has := range loads(r, objects, after) {
			require.Contains(t, weights, name)
			share := float64(len(objects)*weights[name]) / float64(total)
			most := int(max(math.Ceil(share), math.Floor(share*factor)))
			require.LessOrEqual(t, has, most, "%s: share %v", name, share)
			require.GreaterOrEqual(t, has, int(share/factor), "%s: share %v", name, share)
		}
		for name, weight := range weights {
			if float64(len(objects)*weight)/float64(total)/factor >= 1 {
				require.Positive(t, loads(r, objects, after)[name], name)
			}
		}
		require.Equal(t, after, b.diverted(r, weights, after), "it stands")
		again, err := parseDiverted(encodeDiverted(after))
		require.NoError(t, err)
		require.Equal(t, after, again)
	})
}

// What a scan has missed, because it was new, counts until the next scan.
func TestNewKeysCountUntilTheNextScan(t *testing.T) {
	p, err := newPlan(protocol.HistoryOf(both), both, nil)
	require.NoError(t, err)
	b := &balance{factor: 1.25, objects: map[uint64]int{}}
	b.planned(p)
	require.True(t, b.admits(p, 1))
	b.count(map[uint64]int{})
	require.False(t, b.isDue(), "one key need not be diverted")
	assert.Equal(t, map[uint64]int{1: 1}, b.objects)
	b.count(map[uint64]int{})
	require.False(t, b.isDue())
	assert.Empty(t, b.objects)
}

// While a plan is stored, keys are admitted by the one before.
func TestKeysThatAreAdmittedMeanwhileAreLookedAtAgain(t *testing.T) {
	old, err := newPlan(protocol.HistoryOf(both), both, nil)
	require.NoError(t, err)
	b := &balance{factor: 1, objects: map[uint64]int{}}
	b.planned(old)
	var hashes []uint64 // of one shard
	for hash := uint64(1); len(hashes) < 4; hash += 1 << 60 {
		if old.Target(hash) == old.Target(1) {
			hashes = append(hashes, hash)
		}
	}
	for _, hash := range hashes[:2] {
		b.admits(old, hash)
	}
	require.True(t, b.isDue(), "both have the same shard")
	diverted, err := b.of(both, nil)
	require.NoError(t, err)
	b.admits(old, hashes[2])
	b.admits(old, hashes[3])

	stored, err := newPlan(protocol.HistoryOf(both), both, diverted)
	require.NoError(t, err)
	b.planned(stored)
	assert.True(t, b.isDue())
	diverted, err = b.of(both, diverted)
	require.NoError(t, err)
	stored, err = newPlan(protocol.HistoryOf(both), both, diverted)
	require.NoError(t, err)
	b.planned(stored)
	assert.False(t, b.isDue())
	assert.Len(t, diverted, 2)
}

// A key with so many objects that no shard may have it stays where it is.
func TestAKeyThatIsTooBigStaysWhereItIs(t *testing.T) {
	weights := map[string]int{"a": 100, "b": 100, "c": 100}
	r, err := RingOf(weights)
	require.NoError(t, err)
	objects := map[uint64]int{1: 100, 2 << 60: 1, 3 << 60: 1}
	b := &balance{factor: 1.25, objects: objects}
	after := b.diverted(r, weights, nil)
	owner, _ := r.OwnerHash(1)
	assert.Equal(t, 100, loads(r, objects, after)[owner])
}

// What was diverted is not lost when there are too many objects, but goes back when its shard has left, or when
// nothing is balanced any more.
func TestWhatIsDivertedStaysWhenThereAreTooMany(t *testing.T) {
	weights := map[string]int{"a": 100, "b": 100}
	r, err := RingOf(weights)
	require.NoError(t, err)
	b := &balance{factor: 1.25}
	assert.Equal(t, map[uint64]string{1: "a"}, b.diverted(r, weights, map[uint64]string{1: "a", 2: "c"}))
	b.factor = 0
	assert.Empty(t, b.diverted(r, weights, map[uint64]string{1: "a"}))
}

func TestMalformedDiversionsAreErrors(t *testing.T) {
	for _, value := range []string{"x", "[]", `{"a": 1}`, `{"a": ["x"]}`, `{"a": ["11112222333344445"]}`} {
		_, err := parseDiverted(value)
		assert.Error(t, err, value)
	}
}

// What the documentation of package sharder says of few objects: how often a shard has none, how much the busiest
// has, and how many objects move when a shard joins.
func TestFewObjects(t *testing.T) {
	const rings = 40
	for _, c := range []struct{ objects, shards int }{{5, 3}, {10, 5}, {100, 7}} {
		for _, factor := range []float64{0, 1.25} {
			random := rand.New(rand.NewPCG(1, uint64(c.shards)))
			idle, busiest, moved := 0, 0.0, 0
			for range rings {
				keys := map[uint64]int{}
				for range c.objects {
					keys[random.Uint64()] = 1
				}
				weights := map[string]int{}
				for len(weights) < c.shards {
					weights[fmt.Sprintf("operator-%x", random.Uint32())] = 100
				}
				b := &balance{factor: factor, objects: keys}
				r, err := RingOf(weights)
				require.NoError(t, err)
				before := b.diverted(r, weights, nil)
				has := loads(r, keys, before)
				if len(has) < c.shards {
					idle++
				}
				busiest += float64(slices.Max(slices.Collect(maps.Values(has)))*c.shards) / float64(c.objects)
				weights["joined"] = 100
				next, err := RingOf(weights)
				require.NoError(t, err)
				after := b.diverted(next, weights, before)
				for hash := range keys {
					p, _ := r.OwnerHash(hash)
					q, _ := next.OwnerHash(hash)
					if cmp.Or(before[hash], p) != cmp.Or(after[hash], q) {
						moved++
					}
				}
			}
			t.Logf("%d objects on %d shards, balance %v: idle shards in %d %% of rings, busiest %.2f of its share, "+
				"%.1f objects move when one joins", c.objects, c.shards, factor, idle*100/rings, busiest/rings,
				float64(moved)/rings)
			if factor > 0 {
				assert.Zero(t, idle)
			}
		}
	}
}

// What BENCHMARKS.md says of weights and 10,000 objects: how far shards are from their share, and how many objects move
// when the last shard gets half its weight.
func TestSharesOfManyObjects(t *testing.T) {
	const rings, objects = 15, 10_000
	for _, list := range [][]int{{100, 100, 100}, {300, 100, 100}, {100, 100, 20}, {100, 100, 5}} {
		random := rand.New(rand.NewPCG(1, uint64(list[0]+list[2])))
		worst, within, moved, diverted, due := 0.0, 0, 0, 0, 0.0
		for range rings {
			weights, of := map[string]int{}, map[string]int{}
			total, last := 0, ""
			for _, weight := range list {
				last = fmt.Sprintf("operator-%x", random.Uint32())
				weights[last] = weight
				total += weight
			}
			r, err := RingOf(weights)
			require.NoError(t, err)
			half := maps.Clone(weights)
			half[last] = max(1, half[last]/2)
			next, err := RingOf(half)
			require.NoError(t, err)
			var keys []string
			for i := range objects {
				keys = append(keys, fmt.Sprintf("%x/%d", random.Uint32(), i))
				owner, _ := r.Owner(keys[i])
				of[owner]++
				if after, _ := next.Owner(keys[i]); after != owner {
					require.Equal(t, last, owner, "only from the shard whose weight has changed")
					moved++
				}
			}
			far := 0.0
			for name, weight := range weights {
				far = max(far, math.Abs(float64(of[name]*total)/float64(objects*weight)-1))
			}
			worst += far
			if far <= 0.1 {
				within++
			}
			b, err := ring.NewBounded(r, keys, 0.1)
			require.NoError(t, err)
			diverted += b.Diverted()
			before, after := float64(list[2])/float64(total), float64(half[last])/float64(total-list[2]+half[last])
			due += objects * (before - after)
		}
		t.Logf("weights %v: the farthest from its share %.1f %% (mean), within a tenth in %d of %d rings", list,
			100*worst/rings, within, rings)
		t.Logf("half the last: %d objects move, %.0f must; bounded loads of 1.1 divert %d", moved/rings, due/rings,
			diverted/rings)
	}
}

// The possible owners of a key that is diverted, or was since the ring settled, include where it was.
func TestOwnersOfADivertedKeyAreKnown(t *testing.T) {
	h := protocol.HistoryOf(both)
	hash := uint64(1)
	home, err := newPlan(h, both, nil)
	require.NoError(t, err)
	owner, other := home.Target(hash), inA
	if owner == inA {
		other = inB
	}
	p, err := newPlan(h, both, map[uint64]string{hash: other.Shard})
	require.NoError(t, err)
	assert.Equal(t, other, p.Target(hash))
	assert.Equal(t, []protocol.OwnerEpoch{owner, other}, p.owners("uid", hash))
	back, err := newPlan(h.WithOwners(protocol.Displaced{keyed(hash): {other}}), both, nil)
	require.NoError(t, err)
	assert.Equal(t, []protocol.OwnerEpoch{other, owner}, back.owners("uid", hash))
}

// The first owner of a key is where it is diverted to, unless that shard does not renew its Lease.
func TestTheFirstOwnerOfADivertedKeyIsWhereItIsDivertedTo(t *testing.T) {
	h := protocol.HistoryOf(both)
	for _, shard := range []protocol.OwnerEpoch{inA, inB} {
		p, err := newPlan(h, both, map[uint64]string{1: shard.Shard})
		require.NoError(t, err)
		for _, living := range []protocol.Membership{both, onlyA, onlyB, nil} {
			p.living = living
			first, ok := p.livingTarget(1)
			want, divertedToLiving := living.Member(shard.Shard)
			if !divertedToLiving && len(living) > 0 {
				want = living[0].OwnerEpoch
			}
			assert.Equal(t, len(living) > 0, ok)
			assert.Equal(t, want, first)
		}
	}
}
