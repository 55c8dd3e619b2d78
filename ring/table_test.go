package ring

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Hashes do not crowd like this. If they do, the table must grow and say the same.
func TestCrowdedTable(t *testing.T) {
	for name, position := range map[string]func(i int) uint64{
		"at the end":       func(i int) uint64 { return lastPosition - uint64(i%50) },
		"at the beginning": func(i int) uint64 { return uint64(i % 50) },
		"in one place":     func(int) uint64 { return lastPosition / 2 },
		"at the very end":  func(int) uint64 { return lastPosition },
	} {
		t.Run(name, func(t *testing.T) {
			var tokens []uint64
			for i := range 100 {
				tokens = append(tokens, firstAt(position(i))|uint64(i))
			}
			sorted := slices.Sorted(slices.Values(tokens))
			var first []uint64
			for seed := range uint64(5) {
				rand.New(rand.NewPCG(seed, 0)).Shuffle(len(tokens),
					func(i, j int) { tokens[i], tokens[j] = tokens[j], tokens[i] })
				tb := table{span: 175, slots: slices.Repeat([]uint64{vacant}, 176)}
				for _, token := range tokens {
					tb.insert(token)
				}
				tb.close()
				if first == nil {
					first = tb.slots
				}
				assert.Equal(t, first, tb.slots, "depends on the order of insertions")
				for _, token := range sorted {
					for _, hash := range []uint64{firstAt(positionOf(token)), token | (1<<memberBits - 1)} {
						i, _ := slices.BinarySearch(sorted, firstAt(positionOf(hash)))
						require.Equal(t, sorted[i], tb.owner(hash))
						require.Equal(t, sorted[i], tb.slots[tb.seek(hash)])
					}
				}
				before, _ := slices.BinarySearch(sorted, firstAt(100))
				require.Equal(t, memberOf(sorted[before%len(sorted)]), memberOf(tb.owner(firstAt(100))),
					"from far away")
			}
		})
	}
}
