package sharder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var secretKind = kind{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Kind: "Secret",
	namespaced: true,
}

func TestChildrenMoveWithTheirRoots(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.children = []kind{secretKind}
		c.create(many)
		c.start("a")
		c.requireSettled("a")
		all := c.list()
		before := time.Now()
		stamped := c.bear(all, "a")
		c.requireCosts(before, nil, cost{})
		unstamped := c.bear(all, "")
		c.requireFamilies()
		c.requireCosts(before, unstamped, cost{sharder: 1})

		children := append(stamped, unstamped...)
		before = time.Now()
		b := c.start("b")
		c.requireSettled("a", "b")
		c.requireFamilies()
		moved := ownedBy(all, "b", "a", "b")
		c.requireFamilyCosts(before, moved, children, cost{sharder: 2, shard: 1})

		before = time.Now()
		require.NoError(t, b.Terminate())
		c.requireSettled("a")
		c.requireFamilies()
		c.requireFamilyCosts(before, moved, children, cost{sharder: 1})
		lists := 0
		for _, e := range c.audited(before) {
			if part(e) == "sharder" && e.Resource == "secrets" && e.Verb == "list" {
				lists++
			}
		}
		assert.Less(t, lists, len(moved), "lists of children when %d roots move", len(moved))
		t.Logf("%d lists of children when %d roots move", lists, len(moved))
		c.requireExclusion()
	})
}

// bear creates a child of each object, with the label of a shard unless that is empty.
func (c *cluster) bear(roots []object, shard string) (children []object) {
	c.t.Helper()
	for _, root := range roots {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			GenerateName:    "child-",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(root, root.GroupVersionKind())},
		}}
		if shard != "" {
			child.Labels = map[string]string{shardLabel: shard}
		}
		child, err := c.client.CoreV1().Secrets(c.namespace).Create(c.t.Context(), child, metav1.CreateOptions{})
		require.NoError(c.t, err)
		o, err := c.objects(secretKind).Get(c.t.Context(), child.Name, metav1.GetOptions{})
		require.NoError(c.t, err)
		children = append(children, object{secretKind, o})
	}
	return children
}

// requireFamilies waits until each child carries the label of its root.
func (c *cluster) requireFamilies() {
	c.t.Helper()
	var wrong []string
	c.eventually(func() bool {
		labels := map[types.UID]string{}
		for _, root := range c.list() {
			labels[root.GetUID()] = root.GetLabels()[shardLabel]
		}
		list, err := c.client.CoreV1().Secrets(c.namespace).List(c.t.Context(), metav1.ListOptions{})
		require.NoError(c.t, err)
		wrong = wrong[:0]
		for _, child := range list.Items {
			if owner := metav1.GetControllerOf(&child); owner != nil && child.Labels[shardLabel] != labels[owner.UID] {
				wrong = append(wrong, child.Name)
			}
		}
		return len(wrong) == 0
	}, "children are not with their roots: %q", &wrong)
}

// requireFamilyCosts asserts what moving roots has cost since then: that much for each of them, and
// one patch for each of their children.
func (c *cluster) requireFamilyCosts(since time.Time, roots, children []object, each cost) {
	c.t.Helper()
	want, moved := map[string]cost{}, map[types.UID]bool{}
	for _, root := range roots {
		want[root.GetName()] = each
		moved[root.GetUID()] = true
	}
	for _, child := range children {
		if moved[metav1.GetControllerOf(child).UID] {
			want[child.GetName()] = cost{sharder: 1}
		}
	}
	c.requireEach(since, want)
}
