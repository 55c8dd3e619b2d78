package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// ownedOnly is podOf whose owner reference has no controller: true.
func ownedOnly(root *corev1.ConfigMap, name string) *corev1.Pod {
	pod := podOf(root, name)
	pod.OwnerReferences[0].Controller = nil
	return pod
}

// A child without a controller is one of its only owner that has such children. The log says, once, what
// follows. With several such owners, the stamp is refused.
func TestAChildOfItsOnlyOwnerIsStamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		core, logs := observer.New(zap.WarnLevel)
		s := w.replica(Config{Resources: families(), Logger: zap.New(core)}).shard
		root := w.create("x")
		require.NoError(t, s.Stamp(podOf(root, "controlled")))
		assert.Empty(t, logs.All())
		for _, name := range []string{"p", "q"} {
			pod := ownedOnly(root, name)
			pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
				APIVersion: "v1", Kind: "Secret", Name: "s", UID: "of no root",
			})
			require.NoError(t, s.Stamp(pod))
			assert.Equal(t, "a", pod.Labels[w.keys.Shard])
		}
		assert.Len(t, logs.FilterMessage(protocol.Uncontrolled).All(), 1)

		pod := ownedOnly(root, "r")
		pod.OwnerReferences = append(pod.OwnerReferences, ownedOnly(w.create("y"), "r").OwnerReferences...)
		assert.ErrorContains(t, s.Stamp(pod), "shard: stamp pods default/r: it has 2 owners that have such Children, "+
			"and no owner reference of it has controller: true")
		assert.Empty(t, pod.Labels)
	})
}

// Work on such a child is work on its root.
func TestTheOnlyOwnerDecidesWhoWorksOnAChild(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		root := r.create("x")
		pod := ownedOnly(root, "p")
		pod.Labels = map[string]string{r.keys.Shard: "a"}
		pod, err := r.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		assert.ErrorIs(t, r.doFor(pod), ErrNotYet, "its root may follow")
		r.assign("x")
		assert.NoError(t, r.doFor(pod))

		orphan := ownedOnly(r.create("y"), "p") // a newer copy says that it is of another root
		orphan.UID, orphan.ResourceVersion, orphan.Labels = pod.UID, pod.ResourceVersion, pod.Labels
		assert.ErrorIs(t, r.doFor(orphan), ErrNotYet)
	})
}

// A shard marks such a child when its root is another shard's.
func TestAChildOfItsOnlyOwnerIsReturned(t *testing.T) {
	inFamily(t, func(t *testing.T, r *replica) {
		r.raise(0)
		root := r.create("x")
		r.set("x", "b", false,
			&protocol.Record{UID: root.UID, Shard: "b", LeaseUID: "u", Epoch: 1, State: protocol.StateOwned})
		pod := ownedOnly(root, "p")
		pod.Labels = map[string]string{r.keys.Shard: "a"}
		_, err := r.admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, r.keys.Draining(r.pod("p")))
	})
}

// A transform that drops owner references does not make a child an orphan.
func TestATransformKeepsTheOnlyOwner(t *testing.T) {
	transform := preserveOwner(func(obj any) (any, error) {
		obj.(metav1.Object).SetOwnerReferences(nil)
		return obj, nil
	})
	root := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "x"}}
	for _, pod := range []*corev1.Pod{podOf(root, "p"), ownedOnly(root, "p")} {
		owners := pod.OwnerReferences
		kept, err := transform(pod.DeepCopy())
		require.NoError(t, err)
		assert.Equal(t, owners, kept.(*corev1.Pod).OwnerReferences)
	}
}
