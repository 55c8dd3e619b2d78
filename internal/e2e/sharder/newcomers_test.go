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
		f := newFleet(t)
		f.create(many)
		x := f.start("x")
		f.requireSettled("x")
		require.NoError(t, x.Kill())
		f.referee.died("x", f.requireEnd(x).At)
		f.start("a")
		f.start("b")
		f.start("c")
		f.requireHeld("a", "b", "c")
		created := time.Now()
		names := map[string]bool{}
		for n := range 12 {
			name := fmt.Sprint("new-", n)
			names[name] = true
			_, err := f.client.CoreV1().ConfigMaps(f.namespace).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": f.namespace}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		f.requireSettled("a", "b", "c")
		f.requireWorkedOn(f.list(), "a", "b", "c")

		var taken []e2e.AuditEvent
		f.eventually(func() bool { taken = f.leaseWrites(created, "x"); return len(taken) > 0 }, "x was not taken over")
		assigned := map[string]time.Time{} // at first
		for _, e := range f.audited(created) {
			if part(e) == "sharder" && e.Verb == "patch" && e.Code == 200 {
				if at, ok := assigned[e.Name]; !ok || e.Received.Before(at) {
					assigned[e.Name] = e.Received
				}
			}
		}
		costs := f.costs(created)
		for name := range names {
			assert.Equal(t, cost{sharder: 1}, costs[name], "%s had to wait for x", name)
			assert.True(t, assigned[name].Before(taken[0].Received), "%s was assigned at %v, x taken at %v", name,
				assigned[name], taken[0].Received)
			first := slices.IndexFunc(f.list(), func(o object) bool { return o.GetName() == name })
			assert.NotContains(t, f.referee.workers(f.list()[first].GetUID()), "x")
		}
		f.requireExclusion()
	})
}
