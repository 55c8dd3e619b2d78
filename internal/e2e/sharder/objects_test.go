package sharder_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// many is how many objects most tests have: few enough to be quick, and enough that each shard
// among three has some. A test that needs objects to move between shards must check that some do.
const many = 40

// object is one that the cluster distributes.
type object struct {
	kind kind
	*unstructured.Unstructured
}

// objects returns the client for objects of a kind.
func (c *cluster) objects(k kind) dynamic.ResourceInterface {
	if k.namespaced {
		return c.dynamic.Resource(k.Resource).Namespace(c.namespace)
	}
	return c.dynamic.Resource(k.Resource)
}

// create creates n objects of each kind, several at a time, named by the API server.
func (c *cluster) create(n int) {
	c.t.Helper()
	var creating sync.WaitGroup
	errs := make(chan error, n*len(c.kinds))
	slots := make(chan struct{}, 16)
	for _, k := range c.kinds {
		for range n {
			creating.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
				o.SetGenerateName("o-")
				o.SetLabels(map[string]string{"test": c.namespace})
				if c.annotated > 0 {
					o.SetAnnotations(map[string]string{"large": strings.Repeat("x", c.annotated)})
				}
				if k.Kind == "IngressClass" {
					_ = unstructured.SetNestedField(o.Object, "bellwether.dev/test", "spec", "controller")
				}
				_, err := c.objects(k).Create(c.t.Context(), o, metav1.CreateOptions{})
				errs <- err
			})
		}
	}
	creating.Wait()
	close(errs)
	for err := range errs {
		require.NoError(c.t, err)
	}
}

// createUntil creates objects until there are those that a test needs: which shard an object
// belongs to is a matter of its name.
func (c *cluster) createUntil(enough func(all []object) bool) {
	c.t.Helper()
	for c.create(many); !enough(c.list()); {
		c.create(1)
	}
}

// list returns all objects, sorted by name.
func (c *cluster) list() []object {
	c.t.Helper()
	var all []object
	for _, k := range c.kinds {
		list, err := c.objects(k).List(c.t.Context(), metav1.ListOptions{LabelSelector: "test=" + c.namespace})
		require.NoError(c.t, err)
		for i := range list.Items {
			all = append(all, object{k, &list.Items[i]})
		}
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// get reads an object.
func (c *cluster) get(o object) object {
	c.t.Helper()
	now, err := c.objects(o.kind).Get(c.t.Context(), o.GetName(), metav1.GetOptions{})
	require.NoError(c.t, err)
	return object{o.kind, now}
}

// edit patches an object as a user does, who knows nothing of versions.
func (c *cluster) edit(o object, patch string, args ...any) {
	c.t.Helper()
	_, err := c.objects(o.kind).Patch(c.t.Context(), o.GetName(), types.MergePatchType,
		fmt.Appendf(nil, patch, args...), metav1.PatchOptions{})
	require.NoError(c.t, err)
}

// owner is the shard that an object belongs to when these are the members.
func (o object) owner(members ...string) string {
	weights := map[string]int{}
	for _, name := range members {
		weights[name] = shardlease.DefaultWeight
	}
	r, err := sharder.RingOf(weights)
	if err != nil {
		return err.Error()
	}
	name, _ := r.OwnerBytes(api.ObjectKey(nil, o.GroupVersionKind().GroupKind(), o))
	return name
}

// ownedBy returns those objects that belong to one shard when these are the members.
func ownedBy(all []object, shard string, members ...string) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.owner(members...) != shard })
}

// moved returns those objects that do not belong to the same shard before and after.
func moved(all []object, before, after []string) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.owner(before...) == o.owner(after...) })
}

// misplaced says what is wrong with an object when these are the members; empty: nothing.
func (o object) misplaced(members ...string) string {
	v, want := versionOf(o), o.owner(members...)
	switch {
	case v.shard != want:
		return fmt.Sprintf("%s: label %q, want %q", o.GetName(), v.shard, want)
	case v.drained:
		return o.GetName() + ": drained"
	case !v.valid || v.owner.Shard != want || v.owner.State != "owned":
		return fmt.Sprintf("%s: record %+v, want one of %s", o.GetName(), v.owner, want)
	}
	return ""
}

// requirePlaced waits until every object is where the ring says, with a record that says so.
func (c *cluster) requirePlaced(members ...string) {
	c.t.Helper()
	var wrong []string
	c.eventually(func() bool {
		wrong = wrong[:0]
		for _, o := range c.list() {
			if problem := o.misplaced(members...); problem != "" {
				wrong = append(wrong, problem)
			}
		}
		return len(wrong) == 0
	}, "not placed among %q: %q", members, &wrong)
}

// requireWorkedOn waits until the last work on each object is its owner's.
func (c *cluster) requireWorkedOn(objects []object, members ...string) {
	c.t.Helper()
	for _, o := range objects {
		c.eventually(func() bool {
			workers := c.referee.workers(o.GetUID())
			return len(workers) > 0 && workers[len(workers)-1] == o.owner(members...)
		}, "%s: %s does not work on it", o.GetName(), o.owner(members...))
	}
}
