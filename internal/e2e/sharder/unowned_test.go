package sharder_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// One object cannot be patched, as its sharder may patch objects of other names only. It has an Event
// that says so, as kubectl describe shows it. The other object is assigned.
func TestAnObjectThatNoShardOwnsHasAnEvent(t *testing.T) {
	t.Parallel()
	const ring = "r"
	namespace, err := shared.Namespace(t.Context(), "unowned")
	require.NoError(t, err)
	user := namespace + "-sharder"
	verbs := []string{"get", "list", "watch", "create", "update", "delete"}
	require.NoError(t, shared.Grant(t.Context(), user, namespace,
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs},
		rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"patch"},
			ResourceNames: []string{"free", "bellwether-checks-its-access"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"},
		}))
	admin, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	for _, name := range []string{"free", "kept"} {
		_, err := admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"wanted": ""}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	lease, err := shardlease.New(admin, shardlease.Config{
		Namespace: namespace, Ring: ring, Identity: "a", OnLost: func(err error) { assert.NoError(t, err) },
	})
	require.NoError(t, err)
	running.Go(func() {
		_ = lease.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	})
	kube, err := kubernetes.NewForConfig(shared.User(user))
	require.NoError(t, err)
	objects, err := metadata.NewForConfig(shared.User(user))
	require.NoError(t, err)
	discoverer, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	require.NoError(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	defer broadcaster.Shutdown()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	s, err := sharder.New(kube, objects, mapper, sharder.Config{
		Namespace: namespace, Ring: ring, UnownedAfter: 10 * time.Second, // by then the other one is assigned
		Events: broadcaster.NewRecorder(scheme.Scheme, "sharder"),
		Resources: []api.Resource{{
			GVR: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespaces: []string{namespace},
			Selector: labels.SelectorFromSet(labels.Set{"wanted": ""}),
		}},
	})
	require.NoError(t, err)
	running.Go(func() { assert.NoError(t, s.Run(ctx)) })

	var recorded []eventsv1.Event
	require.Eventually(t, func() bool {
		list, err := admin.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		recorded = list.Items
		return len(recorded) > 0
	}, time.Minute, poll)
	kept, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, recorded, 1)
	assert.Equal(t, corev1.ObjectReference{
		APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "kept", UID: kept.UID,
	}, recorded[0].Regarding)
	assert.Equal(t, "Unowned", recorded[0].Reason)
	assert.Contains(t, recorded[0].Note, "it has no valid record of its owner")
	free, err := admin.CoreV1().ConfigMaps(namespace).Get(t.Context(), "free", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, "a", free.Labels[api.ShardLabel(ring)])
}
