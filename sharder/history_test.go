package sharder

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The format is a contract between replicas of different versions.
func TestHistoryFormatStands(t *testing.T) {
	h := history{newMembership(inB, inA), newMembership(inA2, inB), newMembership(inA2)}
	assert.JSONEq(t, `[{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1},{"shard":"b","leaseUID":"lease-b","epoch":1}]},`+
		`{"join":[{"shard":"a","leaseUID":"lease-a","epoch":2}]},{"leave":["b"]}]`, h.encode())
	again, err := parseHistory(h.encode())
	require.NoError(t, err)
	assert.Equal(t, h, again)
}

func TestHistoriesSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h history
		for range rapid.IntRange(1, 6).Draw(t, "memberships") {
			var members []tenant
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID).Draw(t, "members") {
				members = append(members, tenant{name, "l", rapid.Int64Range(1, 3).Draw(t, "epoch")})
			}
			h = h.with(newMembership(members...))
		}
		again, err := parseHistory(h.encode())
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

func TestMalformedHistoriesAreNone(t *testing.T) {
	for _, value := range []string{``, `[]`, `{}`, `[{"join":[{"shard":"","epoch":1}]}]`, `[{"join":[{"shard":"a","epoch":0}]}]`, `[{"join":1}]`} {
		_, err := parseHistory(value)
		assert.Error(t, err, value)
	}
}

func TestHistoryRemembersEveryMembershipOnce(t *testing.T) {
	a, ab := newMembership(inA), newMembership(inA, inB)
	h := history{}.with(a).with(ab).with(a)
	assert.Equal(t, history{ab, a}, h, "the present one is last")
	assert.True(t, h.contains(history{a}))
	assert.False(t, h.contains(history{newMembership(inB)}))
	assert.True(t, h.names("b"))
	assert.False(t, h.names("c"))
	assert.False(t, h.isJust(a))
	assert.True(t, history{a}.isJust(a))

	u := h.union(history{newMembership(inC), ab})
	assert.Equal(t, history{newMembership(inC), ab, a}, u)
}

func TestAShardInAnotherLifeMakesAnotherMembership(t *testing.T) {
	assert.False(t, slices.Equal(newMembership(inA, inB), newMembership(inA2, inB)))
	assert.False(t, slices.Equal(newMembership(inA, inB), newMembership(inAx, inB)))
	assert.True(t, slices.Equal(newMembership(inA, inB), newMembership(inB, inA)))
}
