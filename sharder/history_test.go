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
	h := historyOf(newMembership(inB, inA), newMembership(inA2, inB), newMembership(inA2))
	assert.JSONEq(t, `[{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1},{"shard":"b","leaseUID":"lease-b","epoch":1}]},`+
		`{"join":[{"shard":"a","leaseUID":"lease-a","epoch":2}]},{"leave":["b"]}]`, h.encode())
	again, err := parseHistory(h.encode())
	require.NoError(t, err)
	assert.Equal(t, h, again)
}

func TestHistoriesSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := historyOf()
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
	h := historyOf().with(a).with(ab).with(a)
	assert.Equal(t, historyOf(ab, a), h, "the present one is last")
	assert.True(t, h.contains(historyOf(a)))
	assert.False(t, h.contains(historyOf(newMembership(inB))))
	assert.True(t, h.names("b"))
	assert.False(t, h.names("c"))
	assert.False(t, h.equal(historyOf(a)))
	assert.True(t, historyOf(a).equal(historyOf(a)))

	u := h.union(historyOf(newMembership(inC), ab))
	assert.Equal(t, historyOf(newMembership(inC), ab, a), u)
}

// At its bound a history forgets who owned what, and nobody who may be at work.
func TestALongHistoryForgetsOnlyWhoOwnedWhat(t *testing.T) {
	h := historyOf(newMembership(inA, inB), newMembership(inA2, inB), newMembership(inB, inC))
	h.apart = apart{"uid": {inA}}
	assert.Equal(t, h, h.bounded(h.size(), func(tenant) bool { return true }))
	over := func(t tenant) bool { return t == inA }
	assert.Equal(t, history{[]membership{{inB}, {inA2}, newMembership(inB, inC)}, apart{"uid": {inA}}}, h.bounded(h.size()-1, over))
	last := historyOf(both)
	assert.Equal(t, last, last.bounded(0, over), "the present one stays")
}

// A history of v0.2 says to v0.1 that more shards may have owned an object, and not that fewer may.
func TestWhoMayHaveOwnedSingleObjectsIsStored(t *testing.T) {
	h := history{[]membership{both}, apart{"x": {inA, inC}, "y": {inA}}}
	assert.JSONEq(t, `[{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1}],"of":["x","y"]},`+
		`{"join":[{"shard":"c","leaseUID":"lease-c","epoch":1}],"leave":["a"],"of":["x"]},`+
		`{"join":[{"shard":"a","leaseUID":"lease-a","epoch":1},{"shard":"b","leaseUID":"lease-b","epoch":1}],"leave":["c"]}]`, h.encode())
	again, err := parseHistory(h.encode())
	require.NoError(t, err)
	assert.Equal(t, h, again)
	assert.True(t, h.names("c"))
	assert.Equal(t, []tenant{inA, inB, inC}, h.tenants())
	more := h.union(history{[]membership{onlyA}, apart{"y": {inB}}})
	assert.Equal(t, apart{"x": {inA, inC}, "y": {inA, inB}}, more.apart)
	assert.False(t, h.contains(more))
}

func TestAShardInAnotherLifeMakesAnotherMembership(t *testing.T) {
	assert.False(t, slices.Equal(newMembership(inA, inB), newMembership(inA2, inB)))
	assert.False(t, slices.Equal(newMembership(inA, inB), newMembership(inAx, inB)))
	assert.True(t, slices.Equal(newMembership(inA, inB), newMembership(inB, inA)))
}
