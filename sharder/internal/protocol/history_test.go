package protocol

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The format of a history must not change. It is a contract between replicas of different versions.
func TestHistoryFormatStands(t *testing.T) {
	h := HistoryOf(NewMembership(inB, inA), NewMembership(inA2, inB), NewMembership(inA2))
	assert.JSONEq(t, `[{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1},`+
		`{"shard":"b","leaseUID":"lease-b","epoch":1}]},`+
		`{"join":[{"shard":"a","leaseUID":"lease-a","epoch":2}]},{"leave":["b"]}]`, h.Encode())
	again, err := ParseHistory(h.Encode())
	require.NoError(t, err)
	assert.Equal(t, h, again)
}

func TestHistoriesSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := HistoryOf()
		for range rapid.IntRange(1, 6).Draw(t, "memberships") {
			var members []OwnerEpoch
			for _, name := range rapid.SliceOfNDistinct(
				rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 4, rapid.ID,
			).Draw(t, "members") {
				members = append(members, OwnerEpoch{name, "l", rapid.Int64Range(1, 3).Draw(t, "epoch")})
			}
			h = h.With(NewMembership(members...))
		}
		again, err := ParseHistory(h.Encode())
		require.NoError(t, err)
		require.Equal(t, h, again)
	})
}

func TestMalformedHistoriesAreNone(t *testing.T) {
	for _, value := range []string{
		``, `[]`, `{}`, `[{"join":[{"shard":"","epoch":1}]}]`, `[{"join":[{"shard":"a","epoch":0}]}]`, `[{"join":1}]`,
	} {
		_, err := ParseHistory(value)
		assert.Error(t, err, value)
	}
}

func TestHistoryRemembersEveryMembershipOnce(t *testing.T) {
	a, ab := NewMembership(inA), NewMembership(inA, inB)
	h := HistoryOf().With(a).With(ab).With(a)
	assert.Equal(t, HistoryOf(ab, a), h, "the present one is last")
	assert.True(t, h.Contains(HistoryOf(a)))
	assert.False(t, h.Contains(HistoryOf(NewMembership(inB))))
	assert.True(t, h.Names("b"))
	assert.False(t, h.Names("c"))
	assert.False(t, h.Equal(HistoryOf(a)))
	assert.True(t, HistoryOf(a).Equal(HistoryOf(a)))

	u := h.Union(HistoryOf(NewMembership(inC), ab))
	assert.Equal(t, HistoryOf(NewMembership(inC), ab, a), u)
}

// At its bound a history forgets which objects a shard owned, but no shard that may be at work.
func TestALongHistoryForgetsOnlyWhoOwnedWhat(t *testing.T) {
	h := HistoryOf(NewMembership(inA, inB), NewMembership(inA2, inB), NewMembership(inB, inC))
	h.Displaced = Displaced{"uid": {inA}}
	assert.Equal(t, h, h.Bounded(len(h.Encode()), func(OwnerEpoch) bool { return true }))
	over := func(t OwnerEpoch) bool { return t == inA }
	assert.Equal(
		t, History{
			[]Membership{NewMembership(inB), NewMembership(inA2), NewMembership(inB, inC)}, Displaced{"uid": {inA}},
		},
		h.Bounded(len(h.Encode())-1, over),
	)
	last := HistoryOf(both)
	assert.Equal(t, last, last.Bounded(0, over), "the present one stays")
}

func TestWhoMayHaveOwnedSingleObjectsIsStored(t *testing.T) {
	h := History{[]Membership{both}, Displaced{"x": {inA, inC}, "y": {inA}}}
	assert.JSONEq(t, `[{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1}],"of":["x","y"]},`+
		`{"join":[{"shard":"c","leaseUID":"lease-c","epoch":1}],"leave":["a"],"of":["x"]},`+
		`{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1},`+
		`{"shard":"b","leaseUID":"lease-b","epoch":1}],"leave":["c"]}]`, h.Encode())
	again, err := ParseHistory(h.Encode())
	require.NoError(t, err)
	assert.Equal(t, h, again)
	assert.True(t, h.Names("c"))
	assert.Equal(t, []OwnerEpoch{inA, inB, inC}, h.OwnerEpochs())
	more := h.Union(History{[]Membership{onlyA}, Displaced{"y": {inB}}})
	assert.Equal(t, Displaced{"x": {inA, inC}, "y": {inA, inB}}, more.Displaced)
	assert.False(t, h.Contains(more))
}

func TestAShardInAnotherLifeMakesAnotherMembership(t *testing.T) {
	assert.False(t, slices.Equal(NewMembership(inA, inB), NewMembership(inA2, inB)))
	assert.False(t, slices.Equal(NewMembership(inA, inB), NewMembership(inAx, inB)))
	assert.True(t, slices.Equal(NewMembership(inA, inB), NewMembership(inB, inA)))
}
