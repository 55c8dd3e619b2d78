package ring_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/ring"
)

func TestBadInput(t *testing.T) {
	good := []string{"a", "b"}
	for _, c := range []struct {
		name    string
		members []string
		opts    []ring.Option
		want    []string // in the message: field, rule, value
	}{
		{"empty name", []string{"a", "", ""}, nil, []string{"members[1]: ", "must not be empty", `(got "")`}},
		{
			"too many members", names("m", ring.MaxMembers+1),
			[]ring.Option{ring.WithTokens(1)},
			[]string{"members: ", "at most 65535 different names", "(got 65536)"},
		},
		{"no tokens", good, []ring.Option{ring.WithTokens(0)}, []string{"Tokens: ", "from 1 to 65536", "(got 0)"}},
		{
			"negative tokens", nil,
			[]ring.Option{ring.WithTokens(-1)},
			[]string{"Tokens: ", "from 1 to 65536", "(got -1)"},
		},
		{
			"too many tokens per member", good,
			[]ring.Option{ring.WithTokens(ring.MaxTokens + 1)},
			[]string{"Tokens: ", "from 1 to 65536", "(got 65537)"},
		},
		{
			"too many tokens in all", names("m", 513),
			[]ring.Option{ring.WithTokens(ring.MaxTokens)},
			[]string{"Tokens: ", "at most 33554432 for all members together", "(got 33619968, of 513 members)"},
		},
		{
			"too many tokens by weight", good,
			[]ring.Option{ring.WithWeights(map[string]int{"b": ring.MaxWeight}), ring.WithTokens(ring.MaxTokens)},
			[]string{"Tokens: ", "at most 33554432", "(got 4295032832, of 2 members)"},
		},
		{
			"weight 0", good,
			[]ring.Option{ring.WithWeights(map[string]int{"a": 0})},
			[]string{`Weights["a"]: `, "from 1 to 65536", "(got 0)"},
		},
		{
			"negative weight", good,
			[]ring.Option{ring.WithWeights(map[string]int{"a": math.MinInt})},
			[]string{`Weights["a"]: `, "from 1 to 65536", "(got -9223372036854775808)"},
		},
		{
			"weight too great", good,
			[]ring.Option{ring.WithWeights(map[string]int{"b": ring.MaxWeight + 1})},
			[]string{`Weights["b"]: `, "from 1 to 65536", "(got 65537)"},
		},
		{
			"bad weight of no member", good,
			[]ring.Option{ring.WithWeights(map[string]int{"x\n": 0})},
			[]string{`Weights["x\n"]: `, "from 1 to 65536", "(got 0)"},
		},
		{
			"weight of the empty name", good,
			[]ring.Option{ring.WithWeights(map[string]int{"": 1})},
			[]string{"Weights: ", "must not name the empty member", `(got "")`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ring.New(c.members, c.opts...)
			assert.Nil(t, r)
			for _, part := range append(c.want, "ring: ") {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestAllBadFieldsAreNamedAtOnce(t *testing.T) {
	_, err := ring.New([]string{""}, ring.WithTokens(0), ring.WithWeights(map[string]int{"b": 0, "a": -1}))
	assert.EqualError(t, err, `ring: members[0]: must not be empty (got "")
ring: Tokens: must be from 1 to 65536 (got 0)
ring: Weights["a"]: must be from 1 to 65536 (got -1)
ring: Weights["b"]: must be from 1 to 65536 (got 0)`)
}

func TestLimitsAreAllowed(t *testing.T) {
	r := newRing(t, []string{"a", "b"}, ring.WithTokens(1), ring.WithWeights(map[string]int{"b": ring.MaxWeight}))
	assert.Len(t, r.Members(), 2)
	r = newRing(t, []string{"a"}, ring.WithTokens(ring.MaxTokens))
	assert.Len(t, r.Members(), 1)
}

// Duplicates do not count as members.
func TestLimitOfMembersIsOfDifferentNames(t *testing.T) {
	r := newRing(t, slices.Repeat([]string{"a"}, ring.MaxMembers+1), ring.WithTokens(1))
	assert.Equal(t, []string{"a"}, r.Members())
}
