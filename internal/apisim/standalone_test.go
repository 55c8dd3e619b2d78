package apisim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// TestStandaloneServer is used as a program would that gets a kubeconfig and knows nothing else.
func TestStandaloneServer(t *testing.T) {
	server, err := apisim.Listen(t.Context())
	require.NoError(t, err)
	defer func() { assert.NoError(t, server.Close()) }()
	var changes []apisim.Change
	server.Observe(func(c apisim.Change) { changes = append(changes, c) })
	kubeconfig, err := server.Kubeconfig("somebody", "ns")
	require.NoError(t, err)
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	resources, err := client.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, list := range resources {
		for _, r := range list.APIResources {
			kinds[list.GroupVersion+" "+r.Kind] = true
		}
	}
	assert.True(t, kinds["v1 ConfigMap"] && kinds["coordination.k8s.io/v1 Lease"], "%v", kinds)

	configMaps := client.CoreV1().ConfigMaps("ns")
	owner, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}},
		metav1.CreateOptions{})
	require.NoError(t, err)
	watch, err := configMaps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: owner.ResourceVersion})
	require.NoError(t, err)
	defer watch.Stop()
	_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "owned", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "owner",
			UID: owner.UID,
		}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, configMaps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	for _, want := range []string{"ADDED owned", "DELETED owner", "DELETED owned"} {
		e := <-watch.ResultChan()
		assert.Equal(t, want, string(e.Type)+" "+e.Object.(*corev1.ConfigMap).Name)
	}
	_, err = configMaps.Get(t.Context(), "owned", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err))
	assert.Equal(t, "somebody", changes[0].Client)
}

// Processes of Pods share by the UID what belongs to the Pod, as leaderforlife does, whatever
// server the Pod is on.
func TestStandaloneServersGiveUniqueUIDs(t *testing.T) {
	uids := map[types.UID]bool{}
	for range 2 {
		server, err := apisim.Listen(t.Context())
		require.NoError(t, err)
		defer func() { assert.NoError(t, server.Close()) }()
		client, err := kubernetes.NewForConfig(server.Client("test").Config())
		require.NoError(t, err)
		object, err := client.CoreV1().ConfigMaps("ns").
			Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		uids[object.UID] = true
	}
	assert.Len(t, uids, 2)
}
