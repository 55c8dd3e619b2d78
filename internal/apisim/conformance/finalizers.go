package conformance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// finalized creates a ConfigMap with two finalizers.
func (c *Clients) finalized(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	object := newConfigMap(t, "", nil)
	object.Finalizers = []string{"example.com/one", "example.com/two"}
	return c.create(t, object)
}

// deleting is finalized and deleted.
func (c *Clients) deleting(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	object := c.finalized(t)
	c.remove(t, object.Name)
	return c.get(t, object.Name)
}

func finalizerCases() []Case {
	return []Case{
		{"finalize: a deletion marks the object and keeps it", func(t *testing.T, c *Clients) {
			created := c.finalized(t)
			events := follow(t, c.configMaps(),
				metav1.ListOptions{FieldSelector: named(created.Name), ResourceVersion: created.ResourceVersion})
			c.remove(t, created.Name)
			got := c.get(t, created.Name)
			newer(t, got.ResourceVersion, created.ResourceVersion)
			require.NotNil(t, got.DeletionTimestamp)
			require.NotNil(t, got.DeletionGracePeriodSeconds)
			assert.Zero(t, *got.DeletionGracePeriodSeconds)
			assert.Equal(t, created.Finalizers, got.Finalizers)
			assert.Equal(t, created.Data, got.Data)
			assert.Equal(t, created.UID, got.UID)
			assert.Equal(t, got, events.next("MODIFIED").Event.Object)
		}},
		{"finalize: the answer to a deletion is the object", func(t *testing.T, c *Clients) {
			created := c.finalized(t)
			var answer corev1.ConfigMap
			require.NoError(t,
				c.core().Delete().Namespace(c.Namespace).Resource("configmaps").Name(created.Name).Do(t.Context()).Into(
					&answer))
			assert.Equal(t, c.get(t, created.Name), &answer)
			assert.NotNil(t, answer.DeletionTimestamp)
		}},
		{"finalize: without the last finalizer the object is gone", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			events := follow(t, c.configMaps(),
				metav1.ListOptions{FieldSelector: named(object.Name), ResourceVersion: object.ResourceVersion})
			object.Finalizers = object.Finalizers[:1]
			object = c.update(t, object)
			assert.Equal(t, object, events.next("MODIFIED").Event.Object)
			assert.NotNil(t, object.DeletionTimestamp)
			object.Finalizers = nil
			object.Data["key"] = "last"
			answer := c.update(t, object)
			assert.Empty(t, answer.Finalizers)
			c.gone(t, object.Name)
			deleted := events.next("DELETED").Event.Object.(*corev1.ConfigMap)
			newer(t, deleted.ResourceVersion, object.ResourceVersion)
			// The event has the state that was stored last, because the write that removed the
			// finalizer is never stored.
			assert.Equal(t, []string{"example.com/one"}, deleted.Finalizers)
			assert.Equal(t, "value", deleted.Data["key"])
		}},
		{"finalize: to watchers the object is gone by the labels it had before", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", labels{"color": "red"})
			object.Finalizers = []string{"example.com/one"}
			c.create(t, object)
			from := c.now(t)
			red := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=red", ResourceVersion: from})
			blue := follow(t, c.configMaps(),
				metav1.ListOptions{LabelSelector: ofCase(t) + ",color=blue", ResourceVersion: from})
			c.remove(t, object.Name)
			_, err := c.patch(t, object.Name, types.MergePatchType,
				`{"metadata":{"finalizers":null,"labels":{"color":"blue"}}}`)
			require.NoError(t, err)
			c.createConfigMap(t, "-next", labels{"color": "blue"})
			red.expect("MODIFIED ", "DELETED ")
			blue.expect("ADDED -next")
		}},
		{"finalize: only the write that removes the last finalizer deletes", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			stale := object.DeepCopy()
			c.put(t, object, "other")
			stale.Finalizers = nil
			_, err := c.configMaps().Update(t.Context(), stale, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
			c.get(t, object.Name)
		}},
		{"finalize: a patch may remove the last finalizer", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			_, err := c.patch(t, object.Name, types.JSONPatchType,
				`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/one"},{"op":"remove","path":"/`+
					`metadata/finalizers"}]`)
			require.NoError(t, err)
			c.gone(t, object.Name)
		}},
		{"finalize: the metadata client may remove the last finalizer", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			_, err := c.metadata(configMapResource).Patch(t.Context(), object.Name, types.MergePatchType,
				[]byte(`{"metadata":{"finalizers":[]}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			c.gone(t, object.Name)
		}},
		{"finalize: removing finalizers of a living object does not delete it", func(t *testing.T, c *Clients) {
			object := c.finalized(t)
			object.Finalizers = nil
			c.update(t, object)
			assert.Empty(t, c.get(t, object.Name).Finalizers)
		}},
		{"finalize: no finalizer can be added while deleting", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			object.Finalizers = append(object.Finalizers, "example.com/three")
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
			_, err = c.patch(t, object.Name, types.JSONPatchType,
				`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/three"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"finalize: a malformed finalizer is refused", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Finalizers = []string{"not a finalizer"}
			_, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"finalize: a deleting object can be updated", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			updated := c.put(t, object, "other")
			assert.Equal(t, "other", updated.Data["key"])
			assert.Equal(t, object.DeletionTimestamp, updated.DeletionTimestamp)
		}},
		{"finalize: a deletion cannot be taken back", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			object.DeletionTimestamp, object.DeletionGracePeriodSeconds = nil, nil
			updated := c.put(t, object, "other")
			assert.NotNil(t, updated.DeletionTimestamp)
			assert.NotNil(t, updated.DeletionGracePeriodSeconds)
		}},
		{"finalize: another deletion changes nothing", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			c.remove(t, object.Name)
			assert.Equal(t, object, c.get(t, object.Name))
			err := c.configMaps().Delete(t.Context(), object.Name, *metav1.NewPreconditionDeleteOptions("other"))
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"finalize: the name stays taken while deleting", func(t *testing.T, c *Clients) {
			c.deleting(t)
			_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "", nil), metav1.CreateOptions{})
			refused(t, err, 409, metav1.StatusReasonAlreadyExists)
		}},
		{"finalize: a grace period of 0 does not pass finalizers by", func(t *testing.T, c *Clients) {
			object, none := c.finalized(t), int64(0)
			require.NoError(t,
				c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
			assert.NotNil(t, c.get(t, object.Name).DeletionTimestamp)
		}},
		{"finalize: a deleting object is in lists and selections", func(t *testing.T, c *Clients) {
			object := c.deleting(t)
			assert.Equal(t, []corev1.ConfigMap{*object}, c.list(t, metav1.ListOptions{}).Items)
		}},
		{"finalize: of a collection, those without finalizers are gone", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "-other", nil)
			c.finalized(t)
			require.NoError(t,
				c.configMaps().DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: ofCase(t)}))
			list := c.list(t, metav1.ListOptions{})
			assert.Equal(t, []string{""}, suffixes(t, list.Items))
			assert.NotNil(t, list.Items[0].DeletionTimestamp)
		}},
	}
}
