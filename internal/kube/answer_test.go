package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Any JSON decodes as an object, or as a list of them.
func TestAnotherAnswer(t *testing.T) {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
	simulated := apisim.NewServer().Client("c")
	for name, c := range map[string]kubernetes.Interface{
		"fake": fake.NewClientset(), "simulated": kubernetes.NewForConfigOrDie(simulated.Config()),
	} {
		maps := c.CoreV1().ConfigMaps("default")
		created, err := maps.Create(t.Context(), m, metav1.CreateOptions{})
		require.NoError(t, kube.Named(created, "m", err), name)
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, kube.Versioned(list, err), name)
		read, err := maps.Get(t.Context(), "none", metav1.GetOptions{})
		assert.True(t, kube.Absent(kube.Named(read, "none", err), corev1.Resource("configmaps"), "none"), name)
	}
	simulated.Inject(apisim.Faults{Odd: apisim.Oddities[5]})
	c := kubernetes.NewForConfigOrDie(simulated.Config())
	read, err := c.CoreV1().ConfigMaps("default").Get(t.Context(), "m", metav1.GetOptions{})
	require.NoError(t, err, "client-go believes it")
	assert.ErrorContains(t, kube.Named(read, "m", err), `an object with the name "", not "m"`)
	list, err := c.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err, "client-go believes it")
	assert.ErrorContains(t, kube.Versioned(list, err), "a list without a version")
}
