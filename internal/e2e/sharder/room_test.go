package sharder_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// Objects whose annotations leave ever more room: those with too little get no owner, and all others can
// be drained.
func TestWhatIsAssignedCanBeDrained(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		const limit, most, step = 256 << 10, 1500, 15
		c := newCluster(t)
		a := c.start("a")
		c.requireSettled("a")
		for left := step; left <= most; left += step {
			_, err := c.client.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("left-%04d", left), Labels: map[string]string{"test": c.namespace},
					Annotations: map[string]string{"x": strings.Repeat("x", limit-1-left)},
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		c.requireLog(a, "annotations: must leave")
		var owned []object
		c.eventually(func() bool {
			owned = nil
			for _, o := range c.list() {
				if o.misplaced("a") == "" {
					owned = append(owned, o)
				}
			}
			return len(owned) > 0 && owned[len(owned)-1].GetName() == fmt.Sprintf("left-%04d", most)
		}, "an object with room is not assigned")
		assert.Less(t, len(owned), most/step)
		c.start("b")
		c.start("c")
		c.eventually(func() bool {
			for _, o := range owned {
				if c.get(o).misplaced("a", "b", "c") != "" {
					return false
				}
			}
			return true
		}, "not all were drained")
		require.NotEmpty(t, moved(owned, []string{"a"}, []string{"a", "b", "c"}))
		c.requireExclusion()
	})
}
