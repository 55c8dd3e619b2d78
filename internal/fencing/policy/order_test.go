package policy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

func TestOrder(t *testing.T) {
	queue := []policy.NodeFacts{
		{Name: "c-old", ControlPlane: true, FailingFor: time.Hour},
		{Name: "w-b", FailingFor: time.Minute},
		{Name: "w-unknown", FailingFor: policy.NotSeen},
		{Name: "c-new", ControlPlane: true, FailingFor: time.Second},
		{Name: "w-a", FailingFor: time.Minute},
		{Name: "w-old", FailingFor: 2 * time.Minute},
	}
	before := slices.Clone(queue)
	var names []string
	for _, n := range policy.Order(queue) {
		names = append(names, n.Name)
	}
	assert.Equal(t, []string{"w-old", "w-a", "w-b", "w-unknown", "c-old", "c-new"}, names)
	assert.Equal(t, before, queue)
	assert.Empty(t, policy.Order(nil))
}
