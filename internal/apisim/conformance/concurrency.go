package conformance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writers is how many write at the same time. There must not be many more, because a server gives
// up on patches that it cannot apply after a few attempts.
const writers = 5

// race calls all writers at the same time and returns their errors.
func race(write func(i int) error) []error {
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = write(i) })
	}
	all.Wait()
	return errs
}

// oneWins asserts that one has written and the others were refused for the same reason.
func oneWins(t *testing.T, errs []error, reason metav1.StatusReason) {
	t.Helper()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		assert.Equal(t, reason, apierrors.ReasonForError(err), "%v", err)
	}
	assert.Equal(t, 1, won)
}

func concurrencyCases() []Case {
	return []Case{
		{"race: of updates to one resourceVersion one wins", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			oneWins(t, race(func(i int) error {
				object := created.DeepCopy()
				object.Data["key"] = fmt.Sprint(i)
				_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
				return err
			}), metav1.StatusReasonConflict)
		}},
		{"race: of creations one wins", func(t *testing.T, c *Clients) {
			oneWins(t, race(func(int) error {
				_, err := c.configMaps().Create(t.Context(), newConfigMap(t, "", nil), metav1.CreateOptions{})
				return err
			}), metav1.StatusReasonAlreadyExists)
		}},
		{"race: of merge patches to one resourceVersion one wins", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			oneWins(t, race(func(i int) error {
				_, err := c.patch(t, created.Name, types.MergePatchType,
					`{"metadata":{"resourceVersion":%q},"data":{"key":"%d"}}`, created.ResourceVersion, i)
				return err
			}), metav1.StatusReasonConflict)
		}},
		{"race: of JSON patches that test one value one wins", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			oneWins(t, race(func(i int) error {
				_, err := c.patch(t, created.Name, types.JSONPatchType,
					`[{"op":"test","path":"/data/key","value":"value"},{"op":"replace","path":"/data/key",`+
						`"value":"%d"}]`, i)
				return err
			}), metav1.StatusReasonInvalid)
		}},
		{"race: merge patches without resourceVersion all win", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			for _, err := range race(func(i int) error {
				_, err := c.patch(t, created.Name, types.MergePatchType, `{"data":{"key%d":"written"}}`, i)
				return err
			}) {
				assert.NoError(t, err)
			}
			assert.Len(t, c.get(t, created.Name).Data, 1+writers)
		}},
		{"race: updates without resourceVersion all win", func(t *testing.T, c *Clients) {
			c.createConfigMap(t, "", nil)
			for _, err := range race(func(i int) error {
				object := newConfigMap(t, "", nil)
				object.Data["key"] = fmt.Sprint(i)
				_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
				return err
			}) {
				assert.NoError(t, err)
			}
		}},
		{"race: of deletions of one uid one wins", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			oneWins(t, race(func(int) error {
				return c.configMaps().Delete(t.Context(), created.Name,
					*metav1.NewPreconditionDeleteOptions(string(created.UID)))
			}), metav1.StatusReasonNotFound)
			c.gone(t, created.Name)
		}},
		{"race: of a deletion and an update of one resourceVersion one wins", func(t *testing.T, c *Clients) {
			created := c.createConfigMap(t, "", nil)
			errs := race(func(i int) error {
				if i > 0 {
					return c.configMaps().Delete(t.Context(), created.Name,
						*metav1.NewRVDeletionPrecondition(created.ResourceVersion))
				}
				object := created.DeepCopy()
				object.Data["key"] = "updated"
				_, err := c.configMaps().Update(t.Context(), object, metav1.UpdateOptions{})
				return err
			})
			won := 0
			for _, err := range errs {
				if err == nil {
					won++
					continue
				}
				assert.True(t, apierrors.IsConflict(err) || apierrors.IsNotFound(err), "%v", err)
			}
			assert.Equal(t, 1, won)
			if errs[0] == nil {
				got := c.get(t, created.Name)
				require.Equal(t, "updated", got.Data["key"])
			} else {
				c.gone(t, created.Name)
			}
		}},
	}
}
