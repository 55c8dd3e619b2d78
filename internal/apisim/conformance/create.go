package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func createCases() []Case {
	return []Case{
		{"create: the server sets uid, resourceVersion, namespace and creation time", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			assert.NotEmpty(t, created.UID)
			assert.NotEmpty(t, created.ResourceVersion)
			assert.NotEqual(t, "0", created.ResourceVersion)
			assert.Equal(t, c.Namespace, created.Namespace)
			assert.False(t, created.CreationTimestamp.IsZero())
			assert.Equal(t, labels{caseLabel: unique(t)}, created.Labels)
			assert.Equal(t, map[string]string{"key": "value"}, created.Data)
			assert.Zero(t, created.Generation)
		}},
		{"create: uid, times and generation of the client are not taken", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			deleted, seconds := metav1.Now(), int64(30)
			object.UID, object.Generation = "chosen", 7
			object.CreationTimestamp = metav1.NewTime(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC))
			object.DeletionTimestamp, object.DeletionGracePeriodSeconds = &deleted, &seconds
			created := c.create(t, object)
			assert.NotEqual(t, object.UID, created.UID)
			assert.False(t, created.CreationTimestamp.Equal(&object.CreationTimestamp))
			assert.Nil(t, created.DeletionTimestamp)
			assert.Nil(t, created.DeletionGracePeriodSeconds)
			// ConfigMaps have no generations: the field is the client's.
			assert.Equal(t, int64(7), created.Generation)
		}},
		{"create: a name that is taken is refused and nothing changes", func(t *testing.T, c *Clients) {
			first := c.createConfigMap(t, "", nil)
			second := newConfigMap(t, "", nil)
			second.Data["key"] = "other"
			_, err := c.configMaps().Create(t.Context(), second, metav1.CreateOptions{})
			refused(t, err, 409, metav1.StatusReasonAlreadyExists)
			assert.Equal(t, first, c.get(t, first.Name))
		}},
		{"create: a name may be taken by another resource", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "", nil)
			_, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			assert.NoError(t, err)
		}},
		{"create: a name may be taken in another namespace", func(t *testing.T, c *Clients) {
			here := c.createConfigMap(t, "", nil)
			there, err := c.Typed.CoreV1().ConfigMaps(c.otherNamespace(t)).Create(t.Context(), newConfigMap(t, "", nil),
				metav1.CreateOptions{})
			require.NoError(t, err)
			assert.NotEqual(t, here.UID, there.UID)
		}},
		{"create: generateName makes names", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Name, object.GenerateName = "", unique(t)+"-"
			one, other := c.create(t, object), c.create(t, object)
			for _, created := range []*corev1.ConfigMap{one, other} {
				assert.Regexp(t, "^"+unique(t)+"-[a-z0-9]{5}$", created.Name)
				assert.Equal(t, unique(t)+"-", created.GenerateName)
			}
			assert.NotEqual(t, one.Name, other.Name)
		}},
		{"create: a name goes before generateName", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.GenerateName = "unused-"
			assert.Equal(t, unique(t), c.create(t, object).Name)
		}},
		{"create: a resourceVersion is refused", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.ResourceVersion = "1"
			_, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
			refused(t, err, 500, metav1.StatusReasonUnknown)
			c.gone(t, object.Name)
		}},
		{"create: another namespace in the body is refused", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Namespace = "elsewhere"
			_, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"create: a missing name is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Create(t.Context(), &corev1.ConfigMap{}, metav1.CreateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"create: a malformed name is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "_X", nil), metav1.CreateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"create: a malformed label is refused", func(t *testing.T, c *Clients) {
			_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "", labels{"key": "not a value"}),
				metav1.CreateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"create: an owner without uid is refused", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner"}}
			_, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"create: an owner need not exist", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: "owner",
				UID: "none",
			}}
			assert.Equal(t, object.OwnerReferences, c.create(t, object).OwnerReferences)
		}},
		{"create: a body of another kind is refused", func(t *testing.T, c *Clients) {
			body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, unique(t))
			err := c.core().Post().Namespace(c.Namespace).Resource("configmaps").Body([]byte(body)).Do(
				t.Context()).Error()
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"create: a body that is no JSON is refused", func(t *testing.T, c *Clients) {
			err := c.core().Post().Namespace(c.Namespace).Resource("configmaps").Body([]byte(`{"apiVersion":"v1"`)).Do(
				t.Context()).Error()
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"create: a dry run answers as if, and stores nothing", func(t *testing.T, c *Clients) {
			created, err := c.configMaps().Create(t.Context(), newConfigMap(t, "", nil),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			assert.NotEmpty(t, created.UID)
			assert.Empty(t, created.ResourceVersion)
			c.gone(t, created.Name)
		}},
		{"create: a dry run too finds the name taken", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "", nil)
			_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "", nil),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			refused(t, err, 409, metav1.StatusReasonAlreadyExists)
		}},
		{"create: resourceVersions grow from object to object", func(t *testing.T, c *Clients) {
			earlier := c.createConfigMap(t, "-earlier", nil)
			newer(t, c.createConfigMap(t, "-later", nil).ResourceVersion, earlier.ResourceVersion)
		}},
		{"create: a lease keeps microseconds", func(t *testing.T, c *Clients) {
			object := newLease(t)
			renewed := metav1.NewMicroTime(time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC))
			object.Spec.RenewTime = &renewed
			created, err := c.leases().Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			got, err := c.leases().Get(t.Context(), object.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created, got)
			assert.True(t, got.Spec.RenewTime.Equal(&renewed), "%s", got.Spec.RenewTime)
			assert.Equal(t, "somebody", *got.Spec.HolderIdentity)
			assert.Equal(t, int32(15), *got.Spec.LeaseDurationSeconds)
			assert.Equal(t, int32(2), *got.Spec.LeaseTransitions)
		}},
		{"create: the dynamic client creates what the typed one reads", func(t *testing.T, c *Clients) {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": unique(t)},
				"data":     map[string]any{"key": "value"},
			}}
			created, err := c.Dynamic.Resource(configMapResource).Namespace(c.Namespace).Create(t.Context(), object,
				metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Equal(t, "ConfigMap", created.GetKind())
			got := c.get(t, unique(t))
			assert.Equal(t, created.GetUID(), got.UID)
			assert.Equal(t, created.GetResourceVersion(), got.ResourceVersion)
			assert.Equal(t, map[string]string{"key": "value"}, got.Data)
		}},
		{"create: an object of the cluster has no namespace", func(t *testing.T, c *Clients) {
			role := &rbacv1.ClusterRole{ObjectMeta: objectMeta(t, "", nil)}
			created, err := c.Typed.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Empty(t, created.Namespace)
			got, err := c.Metadata.Resource(clusterRoleResource).Get(t.Context(), role.Name, metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, created.UID, got.UID)
			require.NoError(t, c.Typed.RbacV1().ClusterRoles().Delete(t.Context(), role.Name, metav1.DeleteOptions{}))
		}},
	}
}
