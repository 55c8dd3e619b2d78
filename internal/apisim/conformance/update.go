package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func updateCases() []Case {
	return []Case{
		{"update: resourceVersion changes, uid and creation time stay", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			updated := c.put(t, created, "other")
			newer(t, updated.ResourceVersion, created.ResourceVersion)
			assert.Equal(t, created.UID, updated.UID)
			assert.Equal(t, created.CreationTimestamp, updated.CreationTimestamp)
			assert.Zero(t, updated.Generation)
			assert.Equal(t, "other", updated.Data["key"])
		}},
		{"update: a stale resourceVersion is a conflict and nothing changes", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			fresh := c.put(t, stale, "fresh")
			stale.Data["key"] = "stale"
			_, err := c.configMaps().Update(t.Context(), stale, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
			assert.Equal(t, fresh, c.get(t, fresh.Name))
		}},
		{"update: a stale resourceVersion is a conflict even if nothing would change", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			fresh := c.put(t, stale, "fresh")
			fresh.ResourceVersion = stale.ResourceVersion
			_, err := c.configMaps().Update(t.Context(), fresh, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: a resourceVersion of the future is a conflict", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.ResourceVersion += "000000"
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: a config map without resourceVersion is overwritten", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", labels{"old": "label"})
			updated := c.update(t, newConfigMap(t, "", labels{"new": "label"}))
			newer(t, updated.ResourceVersion, created.ResourceVersion)
			assert.Equal(t, created.UID, updated.UID)
			assert.Equal(t, labels{caseLabel: unique(t), "new": "label"}, updated.Labels)
		}},
		{"update: a lease without resourceVersion is refused", func(t *testing.T, c *Clients) {
			_, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = c.leases().Update(t.Context(), newLease(t), metav1.UpdateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"update: resourceVersion 0 is none", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "", nil)
			object := newConfigMap(t, "", nil)
			object.ResourceVersion, object.Data["key"] = "0", "other"
			assert.Equal(t, "other", c.update(t, object).Data["key"])
			lease := newLease(t)
			_, err := c.leases().Create(t.Context(), lease, metav1.CreateOptions{})
			require.NoError(t, err)
			lease.ResourceVersion = "0"
			_, err = c.leases().Update(t.Context(), lease, metav1.UpdateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"update: a malformed resourceVersion is refused", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.ResourceVersion = "malformed"
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 500, metav1.StatusReasonUnknown)
		}},
		{"update: without a change resourceVersion stays and there is no event", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			events := follow(t, c.configMaps(),
				metav1.ListOptions{FieldSelector: named(created.Name), ResourceVersion: created.ResourceVersion})
			assert.Equal(t, created.ResourceVersion, c.update(t, created).ResourceVersion)
			updated := c.put(t, created, "changed")
			assert.Equal(t, updated.ResourceVersion, events.next("MODIFIED").GetResourceVersion())
		}},
		{"update: another uid is a conflict", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.UID = "other"
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: another uid is a conflict without resourceVersion too", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.UID, object.ResourceVersion = "other", ""
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: no uid is any uid", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			object := created.DeepCopy()
			object.UID = ""
			object.Data["key"] = "other"
			assert.Equal(t, created.UID, c.update(t, object).UID)
		}},
		{"update: a config map of before a deletion does not overwrite its successor", func(t *testing.T, c *Clients) {
			before := c.createConfigMap(t, "", nil)
			c.remove(t, before.Name)
			c.createConfigMap(t, "", nil)
			_, err := c.configMaps().Update(t.Context(), before, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: a missing config map is not found", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Update(t.Context(), newConfigMap(t, "", nil), metav1.UpdateOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"update: a deleted config map is not found", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			c.remove(t, object.Name)
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"update: a missing lease is created", func(t *testing.T, c *Clients) {
			updated, err := c.leases().Update(t.Context(), newLease(t), metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.NotEmpty(t, updated.UID)
			got, err := c.leases().Get(t.Context(), updated.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, updated, got)
		}},
		{"update: a missing lease is not created by a dry run", func(t *testing.T, c *Clients) {
			_, err := c.leases().Update(t.Context(), newLease(t),
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			_, err = c.leases().Get(t.Context(), unique(t), metav1.GetOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"update: a missing role of the cluster is created", func(t *testing.T, c *Clients) {
			roles := c.Typed.RbacV1().ClusterRoles()
			_, err := roles.Update(t.Context(), &rbacv1.ClusterRole{ObjectMeta: objectMeta(t, "", nil)},
				metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.NoError(t, roles.Delete(t.Context(), unique(t), metav1.DeleteOptions{}))
		}},
		{"update: a deleted lease with resourceVersion and uid is a conflict", func(t *testing.T, c *Clients) {
			object, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, c.leases().Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
			_, err = c.leases().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
			_, err = c.leases().Get(t.Context(), object.Name, metav1.GetOptions{})
			refused(t, err, 404, metav1.StatusReasonNotFound)
		}},
		{"update: a deleted lease with resourceVersion but no uid is created again", func(t *testing.T, c *Clients) {
			object, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, c.leases().Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
			uid := object.UID
			object.UID = ""
			again, err := c.leases().Update(t.Context(), object, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.NotEmpty(t, again.UID)
			assert.NotEqual(t, uid, again.UID)
			newer(t, again.ResourceVersion, object.ResourceVersion)
		}},
		{"update: a deleted lease with uid but no resourceVersion is a conflict", func(t *testing.T, c *Clients) {
			object, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			require.NoError(t, c.leases().Delete(t.Context(), object.Name, metav1.DeleteOptions{}))
			object.ResourceVersion = ""
			_, err = c.leases().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: another name in the body is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s-other"}}`, created.Name)
			err := c.core().Put().Namespace(c.Namespace).Resource("configmaps").Name(created.Name).Body(
				[]byte(body)).Do(t.Context()).Error()
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"update: no name in the body is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}`
			err := c.core().Put().Namespace(c.Namespace).Resource("configmaps").Name(created.Name).Body(
				[]byte(body)).Do(t.Context()).Error()
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"update: another namespace in the body is refused", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.Namespace = "elsewhere"
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"update: what the body lacks is removed", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", labels{"old": "label"})
			object.Annotations = map[string]string{"old": "annotation"}
			object.Data["old"] = "data"
			object = c.create(t, object)
			object.Labels, object.Annotations, object.Data = labels{"new": "label"}, nil, nil
			updated := c.update(t, object)
			assert.Equal(t, labels{"new": "label"}, updated.Labels)
			assert.Empty(t, updated.Annotations)
			assert.Empty(t, updated.Data)
		}},
		{"update: the client's creation time is not taken", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			object := created.DeepCopy()
			past := metav1.NewTime(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))
			object.CreationTimestamp = past
			updated := c.update(t, object)
			assert.Equal(t, created.CreationTimestamp, updated.CreationTimestamp)
			assert.Equal(t, created.ResourceVersion, updated.ResourceVersion)
		}},
		{"update: a deletion time is refused", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.DeletionTimestamp = &object.CreationTimestamp
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"update: a dry run answers as if, and stores nothing", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			object := created.DeepCopy()
			object.Data["key"] = "other"
			updated, err := c.configMaps().Update(t.Context(), object,
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			assert.Equal(t, "other", updated.Data["key"])
			assert.Equal(t, created.ResourceVersion, updated.ResourceVersion)
			assert.Equal(t, created, c.get(t, created.Name))
		}},
		{"update: a dry run too finds a conflict", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			c.put(t, stale, "fresh")
			_, err := c.configMaps().Update(t.Context(), stale,
				metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"update: a malformed label is refused", func(t *testing.T, c *Clients) {
			object := c.createConfigMap(t, "", nil)
			object.Labels["key"] = "not a value"
			_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
	}
}
