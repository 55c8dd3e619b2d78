package sharder_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// Work on one object kills each process that begins it. It kills two: then the object is held back, and
// all others are with their owners again.
func TestAnObjectThatKillsItsShardsIsHeldBack(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		all := c.list()
		args := []string{"-supervised", "-min-uptime=-1ns", "-deadly=deadly"}
		replicas := []*e2e.Process{c.start("a", args...), c.start("b", args...), c.start("c", args...)}
		c.requireSettled("a", "b", "c")
		deaths := c.restartAll(replicas)

		o, err := c.client.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "deadly", Labels: map[string]string{"test": c.namespace, "deadly": ""}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		deadly := func() object {
			for _, each := range c.list() {
				if each.GetUID() == o.UID {
					return each
				}
			}
			require.Fail(t, "it is gone")
			return object{}
		}
		c.eventually(func() bool {
			v := versionOf(deadly())
			return v.valid && v.owner.State == "free" && v.shard == ""
		}, "it is not held back")
		held := time.Now()
		assert.Equal(t, int32(2), deaths.Load())
		c.eventually(func() bool {
			for _, each := range all {
				if c.get(each).misplaced("a", "b", "c") != "" {
					return false
				}
			}
			return true
		}, "the others are not with their owners")
		t.Logf("the others are with their owners %v after it is held back", time.Since(held))
		c.requireWorkedOn(all, "a", "b", "c")

		c.eventually(func() bool { return deaths.Load() == 3 }, "it is not tried again")
		assert.Greater(t, time.Since(held), 20*time.Second)
		c.eventually(func() bool {
			for _, annotation := range deadly().GetAnnotations() {
				if strings.Contains(annotation, `"state":"free"`) && strings.Contains(annotation, `{"count":3,`) {
					return true
				}
			}
			return false
		}, "it is not held back again")
		c.edit(deadly(), `{"metadata": {"labels": {"deadly": null}}}`)
		c.requireSettled("a", "b", "c")
		c.requireWorkedOn([]object{deadly()}, "a", "b", "c")
		assert.Equal(t, int32(3), deaths.Load())
		c.requireExclusion()
	})
}

// restartAll restarts each process that ends, after a second, until the test ends. It counts the ends.
func (c *cluster) restartAll(replicas []*e2e.Process) (deaths *atomic.Int32) {
	deaths = &atomic.Int32{}
	var all sync.WaitGroup
	for _, p := range replicas {
		all.Go(func() {
			for {
				exit, err := p.Wait(c.t.Context())
				if err != nil {
					return
				}
				c.referee.died(c.nameOf(p), exit.At)
				deaths.Add(1)
				select {
				case <-c.t.Context().Done():
					return
				case <-time.After(time.Second):
				}
				assert.NoError(c.t, p.Restart())
			}
		})
	}
	c.t.Cleanup(all.Wait)
	return deaths
}
