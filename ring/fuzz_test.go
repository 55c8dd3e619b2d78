package ring_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/ring"
)

// FuzzRing compares rings of any members, separated by newlines, with the model. Its corpus is run
// by go test too.
func FuzzRing(f *testing.F) {
	f.Add("a\nb\nc", uint8(2), uint8(0), []byte("key"))
	f.Add("op-1\nop-11\nop-111", uint8(12), uint8(3), []byte(""))
	f.Add("operator-48775\noperator-59464", uint8(255), uint8(1), []byte{0xff, 0})
	f.Add("operator-replica\ndaemons-\x16\x90\x15z\xdb\xb8e]\na", uint8(9), uint8(2), []byte("\n"))
	f.Add("", uint8(0), uint8(0), []byte("no members"))
	f.Add("a\n\na\n", uint8(1), uint8(255), []byte("empty names"))
	f.Fuzz(func(t *testing.T, lines string, tokens, weight uint8, key []byte) {
		var members []string
		if lines != "" {
			members = strings.Split(lines, "\n")
		}
		var weights map[string]int
		if len(members) > 0 {
			weights = map[string]int{members[0]: int(weight)}
		}
		r, err := ring.New(members, ring.WithTokens(int(tokens)), ring.WithWeights(weights))
		if slices.Contains(members, "") || tokens == 0 || len(members) > 0 && weight == 0 {
			require.Error(t, err)
			require.Nil(t, r)
			return
		}
		require.NoError(t, err)
		m := newModel(members, int(tokens), weights)
		want := m.owners(xxhash.Sum64(key), 10)
		require.Equal(t, want, r.Owners(nil, string(key), 10))
		owner, ok := r.OwnerBytes(key)
		require.Equal(t, len(members) > 0, ok)
		if ok {
			require.Equal(t, want[0], owner)
		}

		reversed := slices.Clone(members)
		slices.Reverse(reversed)
		other, err := ring.New(reversed, ring.WithTokens(int(tokens)), ring.WithWeights(weights))
		require.NoError(t, err)
		require.Empty(t, ring.Moves(r, other))
	})
}
