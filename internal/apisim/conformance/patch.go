package conformance

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patch applies a patch to a ConfigMap.
func (c *Clients) patch(t *testing.T, name string, kind types.PatchType, format string, args ...any) (*corev1.ConfigMap,
	error,
) {
	return c.configMaps().Patch(t.Context(), name, kind, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
}

func patchCases() []Case {
	return []Case{
		{"patch: JSON operations are applied in order", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			patched, err := c.patch(t, created.Name, types.JSONPatchType, `[
				{"op":"test","path":"/data/key","value":"value"},
				{"op":"add","path":"/data/added","value":"1"},
				{"op":"replace","path":"/data/key","value":"2"},
				{"op":"copy","from":"/data/key","path":"/data/copied"},
				{"op":"move","from":"/data/added","path":"/data/moved"},
				{"op":"add","path":"/data/removed","value":"3"},
				{"op":"remove","path":"/data/removed"}
			]`)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"key": "2", "copied": "2", "moved": "1"}, patched.Data)
			newer(t, patched.ResourceVersion, created.ResourceVersion)
			assert.Equal(t, created.UID, patched.UID)
			assert.Equal(t, patched, c.get(t, created.Name))
		}},
		{"patch: a JSON test that fails is refused and nothing changes", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"add","path":"/data/added","value":"1"},{"op":"test","path":"/data/key","value":"other"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
			assert.Equal(t, created, c.get(t, created.Name))
		}},
		{"patch: a JSON test of a missing path is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"test","path":"/data/missing","value":"1"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: a JSON test for null holds for a missing path", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"test","path":"/data/missing","value":null}]`)
			assert.NoError(t, err)
		}},
		{"patch: a JSON remove of a missing path is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType, `[{"op":"remove","path":"/data/missing"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: a JSON replace of a missing key adds it", func(t *testing.T, c *Clients) {
			// RFC 6902 requires a refusal.
			created := c.createConfigMap(t, "", nil)
			patched, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"replace","path":"/data/missing","value":"1"}]`)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"key": "value", "missing": "1"}, patched.Data)
		}},
		{"patch: a JSON replace below a missing path is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"replace","path":"/metadata/annotations/key","value":"1"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: a JSON add below a missing path is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"add","path":"/metadata/annotations/key","value":"1"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: a JSON add overwrites", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			patched, err := c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"add","path":"/data/key","value":"1"}]`)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"key": "1"}, patched.Data)
		}},
		{"patch: JSON paths escape slash and tilde", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", labels{"example.com/shard": "1", "other": "1"})
			patched, err := c.patch(t, created.Name, types.JSONPatchType, `[
				{"op":"test","path":"/metadata/labels/example.com~1shard","value":"1"},
				{"op":"replace","path":"/metadata/labels/example.com~1shard","value":"2"},
				{"op":"add","path":"/metadata/labels/example.com~1drain","value":"3"}
			]`)
			require.NoError(t, err)
			assert.Equal(t,
				labels{caseLabel: unique(t), "example.com/shard": "2", "example.com/drain": "3", "other": "1"},
				patched.Labels)
		}},
		{"patch: JSON adds to a list", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Finalizers = []string{"example.com/one", "example.com/two"}
			c.create(t, object)
			patched, err := c.patch(t, object.Name, types.JSONPatchType, `[
				{"op":"add","path":"/metadata/finalizers/-","value":"example.com/last"},
				{"op":"add","path":"/metadata/finalizers/0","value":"example.com/first"},
				{"op":"remove","path":"/metadata/finalizers/1"}
			]`)
			require.NoError(t, err)
			assert.Equal(t, []string{"example.com/first", "example.com/two", "example.com/last"}, patched.Finalizers)
		}},
		{"patch: JSON may test resourceVersion and uid", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			format := `[{"op":"test","path":"/metadata/resourceVersion","value":%q},
		{"op":"test","path":"/metadata/uid","value":%q},
				{"op":"replace","path":"/data/key","value":"patched"}]`
			fresh, err := c.patch(t, stale.Name, types.JSONPatchType, format, stale.ResourceVersion, stale.UID)
			require.NoError(t, err)
			assert.Equal(t, "patched", fresh.Data["key"])
			_, err = c.patch(t, stale.Name, types.JSONPatchType, format, stale.ResourceVersion, stale.UID)
			refused(t, err, 422, metav1.StatusReasonInvalid)
			_, err = c.patch(t, stale.Name, types.JSONPatchType, format, fresh.ResourceVersion, "other")
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: JSON that writes a stale resourceVersion is a conflict", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			c.put(t, stale, "fresh")
			_, err := c.patch(t, stale.Name, types.JSONPatchType,
				`[{"op":"replace","path":"/metadata/resourceVersion","value":%q}]`, stale.ResourceVersion)
			refused(t, err, 409, metav1.StatusReasonConflict)
		}},
		{"patch: nothing to do leaves resourceVersion", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			for kind, patch := range map[types.PatchType]string{
				types.JSONPatchType: `[]`, types.MergePatchType: `{}`,
				types.StrategicMergePatchType: `{}`,
			} {
				patched, err := c.patch(t, created.Name, kind, "%s", patch)
				require.NoError(t, err)
				assert.Equal(t, created, patched)
			}
			patched, err := c.patch(t, created.Name, types.MergePatchType, `{"data":{"key":"value","missing":null}}`)
			require.NoError(t, err)
			assert.Equal(t, created, patched)
		}},
		{"patch: merge adds, overwrites and deletes keys", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Data = map[string]string{"kept": "1", "overwritten": "1", "deleted": "1"}
			created := c.create(t, object)
			patched, err := c.patch(t, object.Name, types.MergePatchType,
				`{"data":{"overwritten":"2","deleted":null,"added":"2"}}`)
			require.NoError(t, err)
			assert.Equal(t, map[string]string{"kept": "1", "overwritten": "2", "added": "2"}, patched.Data)
			newer(t, patched.ResourceVersion, created.ResourceVersion)
		}},
		{"patch: merge replaces lists", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Finalizers = []string{"example.com/one", "example.com/two"}
			c.create(t, object)
			patched, err := c.patch(t, object.Name, types.MergePatchType,
				`{"metadata":{"finalizers":["example.com/three"]}}`)
			require.NoError(t, err)
			assert.Equal(t, []string{"example.com/three"}, patched.Finalizers)
		}},
		{"patch: merge of a lease", func(t *testing.T, c *Clients) {
			created, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			patched, err := c.leases().Patch(t.Context(), created.Name, types.MergePatchType,
				[]byte(`{"spec":{"holderIdentity":null,"leaseDurationSeconds":1,`+
					`"renewTime":"2024-02-29T12:00:00.123456Z"}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			assert.Nil(t, patched.Spec.HolderIdentity)
			assert.Equal(t, int32(1), *patched.Spec.LeaseDurationSeconds)
			assert.Equal(t, int32(2), *patched.Spec.LeaseTransitions)
			assert.Equal(t, 123456000, patched.Spec.RenewTime.Nanosecond())
		}},
		{"patch: a lease needs no resourceVersion", func(t *testing.T, c *Clients) {
			// As it does for updates.
			_, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			for kind, patch := range map[types.PatchType]string{
				types.JSONPatchType:  `[{"op":"replace","path":"/spec/holderIdentity","value":"other"}]`,
				types.MergePatchType: `{"spec":{"holderIdentity":"another"}}`,
			} {
				_, err := c.leases().Patch(t.Context(), unique(t), kind, []byte(patch), metav1.PatchOptions{})
				assert.NoError(t, err)
			}
		}},
		{"patch: merge of resourceVersion null on a lease is refused", func(t *testing.T, c *Clients) {
			_, err := c.leases().Create(t.Context(), newLease(t), metav1.CreateOptions{})
			require.NoError(t, err)
			_, err = c.leases().Patch(t.Context(), unique(t), types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":null}}`), metav1.PatchOptions{})
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: merge with a stale resourceVersion is a conflict", func(t *testing.T, c *Clients) {
			stale := c.createConfigMap(t, "", nil)
			format := `{"metadata":{"resourceVersion":%q},"data":{"key":%q}}`
			fresh, err := c.patch(t, stale.Name, types.MergePatchType, format, stale.ResourceVersion, "fresh")
			require.NoError(t, err)
			_, err = c.patch(t, stale.Name, types.MergePatchType, format, stale.ResourceVersion, "stale")
			refused(t, err, 409, metav1.StatusReasonConflict)
			assert.Equal(t, fresh, c.get(t, stale.Name))
		}},
		{"patch: another uid is invalid", func(t *testing.T, c *Clients) {
			// Not a conflict, as it is for updates.
			created := c.createConfigMap(t, "", nil)
			format := `{"metadata":{"uid":%q},"data":{"key":"patched"}}`
			_, err := c.patch(t, created.Name, types.MergePatchType, format, "other")
			refused(t, err, 422, metav1.StatusReasonInvalid)
			_, err = c.patch(t, created.Name, types.JSONPatchType,
				`[{"op":"replace","path":"/metadata/uid","value":"other"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
			_, err = c.patch(t, created.Name, types.MergePatchType, format, created.UID)
			assert.NoError(t, err)
		}},
		{"patch: merge of labels by the metadata client", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", labels{"old": "1"})
			patched, err := c.metadata(configMapResource).Patch(t.Context(), created.Name, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"old":null,"new":"2"}}}`), metav1.PatchOptions{})
			require.NoError(t, err)
			assert.Equal(t, labels{caseLabel: unique(t), "new": "2"}, patched.Labels)
			got := c.get(t, created.Name)
			assert.Equal(t, patched.ObjectMeta, got.ObjectMeta)
			assert.Equal(t, created.Data, got.Data)
		}},
		{"patch: strategic merge of labels is merge", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", labels{"old": "1"})
			patched, err := c.patch(t, created.Name, types.StrategicMergePatchType,
				`{"metadata":{"labels":{"old":null,"new":"2"}}}`)
			require.NoError(t, err)
			assert.Equal(t, labels{caseLabel: unique(t), "new": "2"}, patched.Labels)
		}},
		{"patch: the last label removed", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			patched, err := c.patch(t, created.Name, types.MergePatchType, `{"metadata":{"labels":{%q:null}}}`,
				caseLabel)
			require.NoError(t, err)
			assert.Empty(t, patched.Labels)
		}},
		{"patch: a missing object is not found", func(t *testing.T, c *Clients) {
			for kind, patch := range map[types.PatchType]string{types.JSONPatchType: `[]`, types.MergePatchType: `{}`} {
				_, err := c.patch(t, unique(t), kind, "%s", patch)
				refused(t, err, 404, metav1.StatusReasonNotFound)
				_, err = c.leases().Patch(t.Context(), unique(t), kind, []byte(patch), metav1.PatchOptions{})
				refused(t, err, 404, metav1.StatusReasonNotFound)
			}
		}},
		{"patch: another name is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.MergePatchType, `{"metadata":{"name":"other"}}`)
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"patch: malformed JSON is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			for kind, patch := range map[types.PatchType]string{types.JSONPatchType: `[{`, types.MergePatchType: `{`} {
				_, err := c.patch(t, created.Name, kind, "%s", patch)
				refused(t, err, 400, metav1.StatusReasonBadRequest)
			}
		}},
		{"patch: JSON that is no list is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType, `{}`)
			refused(t, err, 400, metav1.StatusReasonBadRequest)
		}},
		{"patch: an unknown JSON operation is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.JSONPatchType, `[{"op":"unknown","path":"/data/key"}]`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: a malformed label is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, types.MergePatchType, `{"metadata":{"labels":{"key":"not a value"}}}`)
			refused(t, err, 422, metav1.StatusReasonInvalid)
		}},
		{"patch: an unknown type of patch is refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			_, err := c.patch(t, created.Name, "application/json", `{}`)
			refused(t, err, 415, metav1.StatusReasonUnsupportedMediaType)
		}},
		{"patch: a dry run answers as if, and stores nothing", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			patched, err := c.configMaps().Patch(t.Context(), created.Name, types.MergePatchType,
				[]byte(`{"data":{"key":"patched"}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			require.NoError(t, err)
			assert.Equal(t, "patched", patched.Data["key"])
			assert.Equal(t, created, c.get(t, created.Name))
		}},
	}
}
