package controllerruntime_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// The fake of controller-runtime on the objects of a ring, as the page of package shardertest says.
func TestTheFakeClientOfARing(t *testing.T) {
	ring := shardertest.New(t, shardertest.Config{Resources: []api.Resource{{GVR: configMaps}}})
	objects := fake.NewClientBuilder().WithObjectTracker(ring.Tracker).WithRESTMapper(ring.Mapper).Build()
	apply := func(key, value string) {
		require.NoError(t, objects.Apply(t.Context(),
			applycorev1.ConfigMap("x", "default").WithData(map[string]string{key: value}), client.FieldOwner("m")))
	}
	apply("a", "1")
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	ring.Get(stored)
	assert.NotEmpty(t, stored.UID)
	assert.NotEmpty(t, stored.ResourceVersion)
	old := stored.DeepCopy()
	apply("b", "2")
	ring.Get(stored)
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, stored.Data)
	assert.Equal(t, old.UID, stored.UID)

	assert.True(t, apierrors.IsConflict(objects.Update(t.Context(), old)), "its writes conflict")
	_, err := ring.Client.CoreV1().ConfigMaps("default").Update(t.Context(), old, metav1.UpdateOptions{})
	assert.NoError(t, err, "those of client-go's fakes do not")
	assert.NoError(t, objects.Update(t.Context(), old), "nor does it see what they change")
}
