package sharder

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// An object whose annotations leave no room for the record of a drain is not assigned, and it is said why.
func TestAnObjectThatCouldNotBeDrainedIsNotAssigned(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.config()
		unowned := make(chan Unowned, 10)
		c.Hooks.OnUnowned = func(u Unowned) { unowned <- u }
		logs := warnings(&c)
		stop, _ := k.settledWith(10, c, "a")
		defer stop()
		for name, left := range map[string]int{"narrow": 250, "wide": 2000} {
			_, err := k.kube.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
					"x": strings.Repeat("x", validation.TotalAnnotationSizeLimitB-1-left),
				}},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Minute)
		owned := map[string]bool{}
		for _, o := range k.objects() {
			r, ok := k.keys.RecordOf(&o)
			owned[o.Name] = ok && r.State == protocol.StateOwned
		}
		assert.True(t, owned["wide"])
		assert.False(t, owned["narrow"])
		u := <-unowned
		assert.Equal(t, "narrow", u.Object.Name)
		assert.Contains(t, u.Why, "annotations: must leave")
		assert.Equal(t, 1, warned(logs, "narrow"))
	})
}
