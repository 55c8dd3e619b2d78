package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const severalOwners = "objects have several owners in the ring, and no owner reference with controller: true: they " +
	"are children of no root, and no shard sees them"

// owned creates a child whose owner references have no controller: true.
func (k *cluster) owned(name string, roots ...metav1.PartialObjectMetadata) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, root := range roots {
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: root.Name, UID: root.UID,
		})
	}
	_, err := k.kube.CoreV1().Pods("default").Create(k.t.Context(), pod, metav1.CreateOptions{})
	require.NoError(k.t, err)
}

// Owner references without controller: true. An object with one owner in the ring is its child, and
// moves with it. One with several is no child. The log says both, once.
func TestChildrenWithoutAControllerAreThoseOfTheirOnlyOwner(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		core, logs := observer.New(zap.WarnLevel)
		c.Logger = zap.New(core)
		stop, shards := k.settledWith(20, c, "a", "b")
		defer stop()
		k.bear(1, false)
		time.Sleep(time.Second)
		assert.Empty(t, logs.All(), "those with a controller are no reason for a warning")
		for _, root := range k.objects() {
			k.owned("of-"+root.Name, root)
		}
		time.Sleep(time.Second)
		k.requireFamilies(2)
		assert.Len(t, logs.FilterMessage(protocol.Uncontrolled).All(), 1)
		assert.Equal(t, 40, k.patched()["follow"])

		k.owned("of-two", k.objects()[:2]...)
		k.owned("of-two-more", k.objects()[2:4]...)
		k.owned("of-no-root")
		time.Sleep(time.Second)
		assert.Len(t, logs.FilterMessage(severalOwners).All(), 1)
		assert.Empty(t, k.patched())
		for _, name := range []string{"of-two", "of-two-more", "of-no-root"} {
			require.NoError(t, k.kube.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		shards[1].release()
		time.Sleep(time.Minute)
		k.requirePlaced(20, "a")
		k.requireFamilies(2)
		assert.Len(t, logs.All(), 2)
	})
}
