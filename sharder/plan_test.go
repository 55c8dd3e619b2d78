package sharder

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
)

func planOf(t *testing.T, h ...membership) *plan {
	t.Helper()
	p, err := newPlan(h)
	require.NoError(t, err)
	return p
}

func TestOwnersAreThoseUnderAnyMembershipSinceTheRingWasSettled(t *testing.T) {
	settled := planOf(t, newMembership(inA, inB))
	unsettled := planOf(t, newMembership(inA, inB), newMembership(inA, inB, inC), newMembership(inB, inC))
	for hash := range uint64(1000) {
		hash *= 0x9e3779b97f4a7c15
		assert.Equal(t, []tenant{settled.target(hash)}, settled.owners(hash))
		owners := unsettled.owners(hash)
		assert.Equal(t, unsettled.target(hash), owners[len(owners)-1])
		assert.Contains(t, owners, settled.target(hash))
	}
}

func TestAnEarlierLifeOfAnOwnerIsAnotherOwner(t *testing.T) {
	p := planOf(t, newMembership(inA), newMembership(inA2))
	assert.Equal(t, []tenant{inA, inA2}, p.owners(1))
}

func TestStraysAreAllThatIsWithNoMember(t *testing.T) {
	n := namesOf("r")
	p := planOf(t, newMembership(inA, inB))
	s := p.strays(n, selectorOf(t, "x=y"))
	assert.Equal(t, "shard.bellwether.dev/r notin (a,b),x=y", s.String())
	for label, want := range map[string]bool{"": true, "a": false, "b": false, "c": true} {
		assert.Equal(t, want, s.Matches(labels.Set{"x": "y", n.shard: label}), label)
	}
	assert.True(t, s.Matches(labels.Set{"x": "y"}))
	assert.False(t, s.Matches(labels.Set{}))
}

func TestASelectorThatIsTooLongForAURLIsNotUsed(t *testing.T) {
	var members []tenant
	for i := range 200 {
		members = append(members, tenant{fmt.Sprintf("controller-7d9f8b6c5-%05d", i), "l", 1})
	}
	s := planOf(t, newMembership(members...)).strays(namesOf("r"), labels.Everything())
	assert.Equal(t, "!shard.bellwether.dev/r", s.String())
}
