package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The shares are exact, by Moves, so nothing here depends on keys. The sets of members are always
// the same.
func TestBalance(t *testing.T) {
	const podLetters = "bcdfghjklmnpqrstvwxz2456789" // of generated names
	letters := func(random *rand.Rand, n int) string {
		s := make([]byte, n)
		for i := range s {
			s[i] = podLetters[random.IntN(len(podLetters))]
		}
		return string(s)
	}
	kinds := []struct {
		name    string
		members func(random *rand.Rand, n int) []string
	}{
		{"Pods of a Deployment", func(random *rand.Rand, n int) []string {
			prefix := "operator-" + letters(random, 10) + "-"
			members := make([]string, n)
			for i := range members {
				members[i] = prefix + letters(random, 5)
			}
			return members
		}},
		{"Pods of a StatefulSet", func(random *rand.Rand, n int) []string {
			return names(letters(random, 4)+"-", n)
		}},
		{"random bytes", func(random *rand.Rand, n int) []string {
			members := make([]string, n)
			for i := range members {
				name := make([]byte, 1+random.IntN(63))
				for j := range name {
					name[j] = byte(random.Uint32())
				}
				members[i] = string(name)
			}
			return members
		}},
	}
	for _, size := range []struct {
		members, sets int
		median        float64 // of max/average
		worst         float64 // of 99 in 100 sets
	}{
		{10, 300, 1.10, 1.25},
		{100, 60, 1.16, 1.30},
	} {
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%d %s", size.members, kind.name), func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(1, uint64(size.members)))
				var imbalance []float64
				for range size.sets {
					r := newRing(t, kind.members(random, size.members))
					most := 0.0
					for _, share := range shares(r) {
						most = max(most, share)
					}
					imbalance = append(imbalance, most*float64(len(r.Members())))
				}
				slices.Sort(imbalance)
				median, worst := imbalance[len(imbalance)/2], imbalance[len(imbalance)*99/100]
				t.Logf("max/average: median %.3f, 99th percentile %.3f", median, worst)
				assert.LessOrEqual(t, median, size.median)
				assert.LessOrEqual(t, worst, size.worst)
				assert.Greater(t, median, 1.0, "not measured")
			})
		}
	}
}
