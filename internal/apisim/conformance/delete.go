package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func deleteCases() []Case {
	return []Case{
		{"delete: what does not exist is not found", func(t *testing.T, c *Clients) {
			err := c.configMaps().Delete(t.Context(), unique(t), metav1.DeleteOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"delete: the second time there is nothing to delete", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			c.remove(t, object.Name)
			c.gone(t, object.Name)
			refused(t, c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{}), 404,
				metav1.StatusReasonNotFound)
		}},
		{"delete: the answer is a status with the object's uid", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			body,
				err := c.core().Delete().Namespace(c.Namespace).Resource("configmaps").Name(object.Name).DoRaw(
				t.Context())
			require.NoError(t, err)
			var status metav1.Status
			require.NoError(t, json.Unmarshal(body, &status))
			assert.Equal(t, metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusSuccess,
				Details:  &metav1.StatusDetails{Name: object.Name, Kind: "configmaps", UID: object.UID},
			}, status)
		}},
		{"delete: a successor of the same name has another uid", func(t *testing.T, c *Clients) {
			before := c.createConfigMap(t, "", nil)
			c.remove(t, before.Name)
			after := c.createConfigMap(t, "", nil)
			assert.NotEqual(t, before.UID, after.UID)
			newer(t, after.ResourceVersion, before.ResourceVersion)
		}},
		{"delete: another uid is a conflict", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			err := c.configMaps().Delete(t.Context(), object.Name, *metav1.NewPreconditionDeleteOptions("other"))
			refused(t, err, 409, metav1.StatusReasonConflict)
			c.get(t, object.Name)
		}},
		{"delete: another resourceVersion is a conflict", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			c.put(t, stale, "fresh")
			err := c.configMaps().Delete(t.Context(), stale.Name,
				*metav1.NewRVDeletionPrecondition(stale.ResourceVersion))
			refused(t, err, 409, metav1.StatusReasonConflict)
			c.get(t, stale.Name)
		}},
		{"delete: preconditions that hold do no harm", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			require.NoError(t, c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{
				Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion},
			}))
			c.gone(t, object.Name)
		}},
		{"delete: with preconditions what does not exist is not found", func(t *testing.T, c *Clients) {
			err := c.configMaps().Delete(t.Context(), unique(t), *metav1.NewPreconditionDeleteOptions("other"))
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"delete: the metadata client has preconditions too", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			err := c.metadata(configMapResource).Delete(t.Context(), object.Name,
				*metav1.NewPreconditionDeleteOptions("other"))
			refused(t, err, 409, metav1.StatusReasonConflict)
			require.NoError(t,
				c.metadata(configMapResource).Delete(t.Context(), object.Name,
					*metav1.NewPreconditionDeleteOptions(string(object.UID))))
			c.gone(t, object.Name)
		}},
		{"delete: a grace period means nothing to a config map", func(t *testing.T, c *Clients) {
			for suffix, seconds := range map[string]int64{"-none": 0, "-some": 30} {
				object := c.createConfigMap(t, suffix, nil)
				require.NoError(t,
					c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{GracePeriodSeconds: &seconds}))
				c.gone(t, object.Name)
			}
		}},
		{"delete: a dry run deletes nothing", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			require.NoError(t,
				c.configMaps().Delete(t.Context(), object.Name,
					metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
			assert.Equal(t, object, c.get(t, object.Name))
		}},
		{"delete: background leaves the rest to the collector", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			policy := metav1.DeletePropagationBackground
			require.NoError(t,
				c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
			c.gone(t, object.Name)
		}},
		{"delete: foreground and orphan wait for the collector by finalizers", func(t *testing.T, c *Clients) {
			for finalizer, policy := range map[string]metav1.DeletionPropagation{
				metav1.FinalizerDeleteDependents: metav1.DeletePropagationForeground,
				metav1.FinalizerOrphanDependents: metav1.DeletePropagationOrphan,
			} {
				object := c.createConfigMap(t, "-"+strings.ToLower(string(policy)), nil)
				require.NoError(t,
					c.configMaps().Delete(t.Context(), object.Name, metav1.DeleteOptions{PropagationPolicy: &policy}))
				deleting := c.get(t, object.Name)
				assert.NotNil(t, deleting.DeletionTimestamp)
				assert.Equal(t, []string{finalizer}, deleting.Finalizers)
				patch := []byte(`{"metadata":{"finalizers":null}}`)
				_, err := c.configMaps().Patch(t.Context(), object.Name, types.MergePatchType, patch,
					metav1.PatchOptions{})
				require.NoError(t, err)
				c.gone(t, object.Name)
			}
		}},
		{"delete: the latest policy counts", func(t *testing.T, c *Clients) {
			object := c.createHeld(t, "")
			for _, step := range []struct {
				policy     metav1.DeletionPropagation
				finalizers []string
			}{
				{metav1.DeletePropagationForeground, []string{"example.com/held", metav1.FinalizerDeleteDependents}},
				{metav1.DeletePropagationOrphan, []string{"example.com/held", metav1.FinalizerOrphanDependents}},
				{metav1.DeletePropagationBackground, []string{"example.com/held"}},
				{metav1.DeletePropagationForeground, []string{"example.com/held", metav1.FinalizerDeleteDependents}},
			} {
				c.removeBy(t, object, step.policy)
				assert.Equal(t, step.finalizers, c.get(t, object.Name).Finalizers, "%s", step.policy)
			}
			_, err := c.patch(t, object.Name, types.MergePatchType,
				`{"metadata":{"finalizers":["foregroundDeletion"]}}`)
			require.NoError(t, err)
			c.remove(t, object.Name) // does not say
			c.get(t, object.Name)
			c.removeBy(t, object, metav1.DeletePropagationBackground)
			c.gone(t, object.Name)
		}},
		{"delete: a collection by labels", func(t *testing.T, c *Clients) {
			for _, suffix := range []string{"-one", "-two"} {
				c.createConfigMap(t, suffix, labels{"fate": "doomed"})
			}
			c.createConfigMap(t, "-three", labels{"fate": "spared"})
			require.NoError(t, c.configMaps().DeleteCollection(t.Context(), metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: ofCase(t) + ",fate=doomed"}))
			list, err := c.configMaps().List(t.Context(), metav1.ListOptions{LabelSelector: ofCase(t)})
			require.NoError(t, err)
			assert.Equal(t, []string{"-three"}, suffixes(t, list.Items))
		}},
		{"delete: an empty collection", func(t *testing.T, c *Clients) {
			assert.NoError(t,
				c.configMaps().DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: ofCase(t)}))
		}},
	}
}
