package conformance

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// mebibyte is how much the values of a ConfigMap may have together.
const mebibyte = 1 << 20

// tooLong asserts that an object was refused for its size.
func tooLong(t *testing.T, err error) {
	t.Helper()
	refused(t, err, 422, metav1.StatusReasonInvalid)
	assert.True(t, apierrors.HasStatusCause(err, metav1.CauseTypeTooLong), "%v", err)
}

// sizeCases are about what is too large.
func sizeCases() []Case {
	return []Case{
		{"create: a config map of more than 1 MiB is refused", func(t *testing.T, c *Clients) {
			object := newConfigMap(t, "", nil)
			object.Data = map[string]string{"a": strings.Repeat("a", mebibyte/2)}
			object.BinaryData = map[string][]byte{"b": bytes.Repeat([]byte("b"), mebibyte/2+1)}
			_, err := c.configMaps().Create(t.Context(), object, metav1.CreateOptions{})
			tooLong(t, err)
			object.BinaryData["b"] = object.BinaryData["b"][1:]
			c.create(t, object)
		}},
		{
			"patch: a config map that would have more than 1 MiB is refused and nothing changes",
			func(t *testing.T, c *Clients) {
				object := newConfigMap(t, "", nil)
				object.Data = map[string]string{"a": strings.Repeat("a", mebibyte-1)}
				created := c.create(t, object)
				for kind, patch := range map[types.PatchType]string{
					types.JSONPatchType:  `[{"op":"add","path":"/data/b","value":"bb"}]`,
					types.MergePatchType: `{"data":{"b":"bb"}}`,
				} {
					_, err := c.patch(t, created.Name, kind, "%s", patch)
					tooLong(t, err)
				}
				assert.Equal(t, created, c.get(t, created.Name))
			},
		},
		{"patch: more than 10,000 JSON operations are refused", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			patch := func(operations int) (*corev1.ConfigMap, error) {
				all := strings.Repeat(`{"op":"test","path":"/data/key","value":"value"},`, operations-1)
				return c.patch(t, created.Name, types.JSONPatchType, "%s",
					fmt.Sprintf(`[%s{"op":"add","path":"/data/more","value":"1"}]`, all))
			}
			_, err := patch(10_001)
			refused(t, err, 413, metav1.StatusReasonRequestEntityTooLarge)
			patched, err := patch(10_000)
			require.NoError(t, err)
			assert.Equal(t, "1", patched.Data["more"])
		}},
	}
}
