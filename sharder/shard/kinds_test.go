package shard

import (
	"testing"
	"testing/synctest"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A shard learns a resource that is installed later when an informer of it is created.
func TestAResourceThatIsServedLaterIsWorkedOnThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		w.mapper = mapper
		gadgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
		r := w.replica(Config{Resources: []api.Resource{
			{GVR: ringtest.Pods},
			{GVR: ringtest.ConfigMaps},
			{GVR: gadgets},
		}})
		o := w.create("x")
		assert.ErrorContains(t, r.do(o), "objects of kind ConfigMap are not in Config.Resources")
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		require.NoError(t, r.run(func(r *replica) { // run creates the informer
			o := r.assign("x")
			assert.NoError(t, r.do(o))
			r.set("x", "a", true, nil)
			synctest.Wait()
			w.acknowledged("x")
		}))
	})
}

// The children of a root that is served later are children. They stay with their roots.
func TestChildrenOfARootThatIsServedLaterAreChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCluster(t)
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		w.mapper = mapper
		secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		r := w.replica(
			Config{
				Resources: []api.Resource{
					{GVR: secrets}, {GVR: ringtest.ConfigMaps, Children: []schema.GroupVersionResource{ringtest.Pods}},
				},
			},
		)
		child := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
		child.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(w.create("x"), corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		}
		assert.ErrorContains(t, r.shard.Stamp(child), "it is controlled by a ConfigMap")
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		require.NoError(t, r.run(func(r *replica) {
			assert.NoError(t, r.shard.Stamp(child))
			assert.Equal(t, "a", child.Labels[w.keys.Shard])
		}))
	})
}

func TestAShardOfNothingThatIsServedIsAnError(t *testing.T) {
	w := newCluster(t)
	absent := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
	r := w.replica(Config{})
	_, err := New(r.shard.metadata, ringtest.TestMapper(), r.lease, Config{Resources: []api.Resource{{GVR: absent}}})
	assert.ErrorContains(t, err, "gadgets is not, is its CustomResourceDefinition installed?")
}
