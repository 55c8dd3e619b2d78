package ring_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/ring"
)

// TestGolden fails when placement changes, which is a breaking change: replicas of two versions
// would disagree on owners. The vectors were made by an independent implementation of the package
// documentation, in another language; they help to write the next one.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.json")
	require.NoError(t, err)
	var golden struct {
		Tokens []struct {
			Member    string
			Hash      hex
			Positions []hex
		}
		Rings []struct {
			Name    string
			Members []string
			Tokens  int
			Weights map[string]int
			Keys    []struct {
				Key    *string // nil: only the hash is given
				Hash   hex
				Owners []string // the first ones
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &golden))
	require.NotEmpty(t, golden.Tokens)
	for _, g := range golden.Tokens {
		assert.Equal(t, uint64(g.Hash), xxhash.Sum64String(g.Member))
		for i, position := range ring.Positions(g.Member, len(g.Positions)) {
			assert.Equal(t, uint64(g.Positions[i]), position, "token %d of %s", i, g.Member)
		}
	}
	require.NotEmpty(t, golden.Rings)
	for _, g := range golden.Rings {
		t.Run(g.Name, func(t *testing.T) {
			r := newRing(t, g.Members, ring.WithTokens(g.Tokens), ring.WithWeights(g.Weights))
			require.NotEmpty(t, g.Keys)
			for _, k := range g.Keys {
				owner, _ := r.OwnerHash(uint64(k.Hash))
				assert.Equal(t, k.Owners[0], owner, "hash %#x", k.Hash)
				if k.Key == nil {
					continue
				}
				assert.Equal(t, uint64(k.Hash), xxhash.Sum64String(*k.Key))
				assert.Equal(t, k.Owners, r.Owners(nil, *k.Key, 3), "key %q", *k.Key)
			}
		})
	}
}

// hex is a number written like 0x1f, which JSON numbers cannot be and, beyond 53 bits, must not be.
type hex uint64

func (h *hex) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 0, 64)
	*h = hex(n)
	return err
}
