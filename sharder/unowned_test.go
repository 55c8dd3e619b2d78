package sharder

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
)

// vacancies has the calls of OnUnowned.
type vacancies struct {
	mu  sync.Mutex
	all []Unowned
}

func (v *vacancies) note(u Unowned) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, u)
}

// take returns the calls since its last call.
func (v *vacancies) take() []Unowned {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := v.all
	v.all = nil
	return all
}

// watched returns the config of a sharder that reports to v, and the Events that it records.
func (v *vacancies) watched(k *cluster) (Config, *events.FakeRecorder) {
	c, recorder := k.config(), events.NewFakeRecorder(100)
	c.Hooks.OnUnowned, c.Events = v.note, recorder
	return c, recorder
}

// A policy denies the patch of a new object. The object says so itself, once, and so it does when a
// second one is denied later. An object that finds an owner in time says nothing.
func TestAnObjectThatNoShardOwnsSaysSo(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var v vacancies
		c, recorder := v.watched(k)
		stop, _ := k.settledWith(30, c, "a", "b")
		defer stop()
		denied := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "denied-000", nil)
		k.deny("denied-000", denied)
		k.create(1, "denied")
		time.Sleep(50 * time.Second)
		assert.Empty(t, v.take(), "not yet")
		time.Sleep(50 * time.Second)
		reported := v.take()
		require.Len(t, reported, 1)
		assert.Equal(t, "denied-000", reported[0].Object.Name)
		assert.Equal(t, "it has no valid record of its owner", reported[0].Why)
		require.Len(t, recorder.Events, 1)
		assert.Contains(t, <-recorder.Events, "Warning Unowned ring r: no living shard owns this object for 1m")
		k.create(30, "new")
		time.Sleep(time.Hour)
		assert.Empty(t, v.take(), "once")

		k.deny("none", nil)
		time.Sleep(time.Minute)
		k.requirePlaced(61, "a", "b")
		assert.Empty(t, v.take())
		assert.Empty(t, recorder.Events)
	})
}

// The death of a shard takes up to two of its lease durations, which is not too long. That of all
// others but one does not take longer.
func TestADeathLeavesNoObjectUnownedForLong(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var v vacancies
		c, _ := v.watched(k)
		stop, shards := k.settledWith(60, c, "a", "b", "c")
		defer stop()
		shards[1].kill()
		shards[2].kill()
		time.Sleep(5 * time.Minute)
		k.requirePlaced(60, "a")
		assert.Empty(t, v.take())
	})
}

// An object whose owner is dead, and that cannot be given to another shard, says who its owner was.
func TestAnObjectOfADeadShardSaysWhoOwnedIt(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		var v vacancies
		c, recorder := v.watched(k)
		stop, shards := k.settledWith(30, c, "a", "b")
		defer stop()
		var of string
		for _, o := range k.objects() {
			if k.keys.ShardOf(&o) == "b" {
				of = o.Name
			}
		}
		k.deny(of, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, of, nil))
		shards[1].kill()
		time.Sleep(3 * time.Minute)
		reported := v.take()
		require.Len(t, reported, 1)
		assert.Equal(t, of, reported[0].Object.Name)
		assert.Equal(t, "its owner, shard b, has ended", reported[0].Why)
		assert.Len(t, recorder.Events, 1)
		require.NoError(t, k.kube.CoreV1().ConfigMaps("default").Delete(t.Context(), of, metav1.DeleteOptions{}))
		k.deny("none", nil)
		_, err := k.kube.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: of}}, metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(3 * time.Minute)
		assert.Empty(t, v.take(), "the new one of its name is another object")
	})
}
