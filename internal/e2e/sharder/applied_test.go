package sharder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
)

// The stamp of a child is a field of the manager that applies it. An apply of that manager without it
// removes it. The sharder sets it again, and further applies leave it alone.
func TestAnApplyWithoutTheStampRemovesItOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.children = []kind{secretKind}
	c.create(1)
	c.start("a")
	c.requireSettled("a")
	root := c.list()[0]
	apply := func(stamped bool, value string) {
		t.Helper()
		owner := metav1.NewControllerRef(root, root.GroupVersionKind())
		child := corev1apply.Secret("child", c.namespace).WithStringData(map[string]string{"value": value}).
			WithOwnerReferences(metav1apply.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
				WithName(owner.Name).WithUID(owner.UID).WithController(true))
		if stamped {
			child.WithLabels(map[string]string{shardLabel: "a"})
		}
		_, err := c.client.CoreV1().Secrets(c.namespace).Apply(t.Context(), child,
			metav1.ApplyOptions{FieldManager: "operator"})
		require.NoError(t, err)
	}
	label := func() string {
		child, err := c.client.CoreV1().Secrets(c.namespace).Get(t.Context(), "child", metav1.GetOptions{})
		require.NoError(t, err)
		return child.Labels[shardLabel]
	}
	begun := time.Now()
	apply(true, "1")
	apply(true, "2")
	assert.Equal(t, "a", label())
	assert.Empty(t, c.costs(begun), "as long as it is stamped, there is nothing to do")

	apply(false, "3")
	c.eventually(func() bool { return label() == "a" }, "the sharder does not stamp the child")
	c.requireFamilies()
	begun = time.Now()
	for _, value := range []string{"4", "5", "6"} {
		apply(false, value)
		assert.Equal(t, "a", label(), "it is the sharder's now")
	}
	apply(true, "7") // the operator's too
	assert.Equal(t, "a", label())
	assert.Empty(t, c.costs(begun))
}
