package sharder_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// The only shard, which was also the sharder, dies. New objects go to the shards that come, before it is
// proved dead.
func TestANewObjectDoesNotWaitForADeadShard(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		x := c.start("x")
		c.requireSettled("x")
		require.NoError(t, x.Kill())
		c.referee.died("x", c.requireEnd(x).At)
		c.start("a")
		c.start("b")
		c.start("c")
		c.requireHeld("a", "b", "c")
		created := time.Now()
		names := map[string]bool{}
		for n := range 12 {
			name := fmt.Sprint("new-", n)
			names[name] = true
			_, err := c.client.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": c.namespace}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		c.requireSettled("a", "b", "c")
		c.requireWorkedOn(c.list(), "a", "b", "c")

		var taken []e2e.AuditEvent
		c.eventually(func() bool { taken = c.leaseWrites(created, "x"); return len(taken) > 0 }, "x was not taken over")
		assigned := map[string]time.Time{} // at first
		for _, e := range c.audited(created) {
			if part(e) == "sharder" && e.Verb == "patch" && e.Code == 200 {
				if at, ok := assigned[e.Name]; !ok || e.Received.Before(at) {
					assigned[e.Name] = e.Received
				}
			}
		}
		costs := c.costs(created)
		for name := range names {
			assert.Equal(t, cost{sharder: 1}, costs[name], "%s had to wait for x", name)
			assert.True(t, assigned[name].Before(taken[0].Received), "%s was assigned at %v, x taken at %v", name,
				assigned[name], taken[0].Received)
			first := slices.IndexFunc(c.list(), func(o object) bool { return o.GetName() == name })
			assert.NotContains(t, c.referee.workers(c.list()[first].GetUID()), "x")
		}
		c.requireExclusion()
	})
}
