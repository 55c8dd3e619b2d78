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

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// many is how many objects most tests have: few enough to be quick, and enough that each shard
// among three has some. A test that needs objects to move between shards must check that some do.
const many = 40

// object is one that the fleet distributes.
type object struct {
	kind kind
	*unstructured.Unstructured
}

// objects returns the client for objects of a kind.
func (f *fleet) objects(k kind) dynamic.ResourceInterface {
	if k.namespaced {
		return f.dynamic.Resource(k.Resource).Namespace(f.namespace)
	}
	return f.dynamic.Resource(k.Resource)
}

// create creates n objects of each kind, several at a time, named by the API server.
func (f *fleet) create(n int) {
	f.t.Helper()
	var creating sync.WaitGroup
	errs := make(chan error, n*len(f.kinds))
	slots := make(chan struct{}, 16)
	for _, k := range f.kinds {
		for range n {
			creating.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				o := &unstructured.Unstructured{}
				o.SetGroupVersionKind(k.Resource.GroupVersion().WithKind(k.Kind))
				o.SetGenerateName("o-")
				o.SetLabels(map[string]string{"test": f.namespace})
				if f.annotated > 0 {
					o.SetAnnotations(map[string]string{"large": strings.Repeat("x", f.annotated)})
				}
				if k.Kind == "IngressClass" {
					_ = unstructured.SetNestedField(o.Object, "bellwether.dev/test", "spec", "controller")
				}
				_, err := f.objects(k).Create(f.t.Context(), o, metav1.CreateOptions{})
				errs <- err
			})
		}
	}
	creating.Wait()
	close(errs)
	for err := range errs {
		require.NoError(f.t, err)
	}
}

// createUntil creates objects until there are those that a test needs: which shard an object
// belongs to is a matter of its name.
func (f *fleet) createUntil(enough func(all []object) bool) {
	f.t.Helper()
	for f.create(many); !enough(f.list()); {
		f.create(1)
	}
}

// list returns all objects, sorted by name.
func (f *fleet) list() []object {
	f.t.Helper()
	var all []object
	for _, k := range f.kinds {
		list, err := f.objects(k).List(f.t.Context(), metav1.ListOptions{LabelSelector: "test=" + f.namespace})
		require.NoError(f.t, err)
		for i := range list.Items {
			all = append(all, object{k, &list.Items[i]})
		}
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// get reads an object.
func (f *fleet) get(o object) object {
	f.t.Helper()
	now, err := f.objects(o.kind).Get(f.t.Context(), o.GetName(), metav1.GetOptions{})
	require.NoError(f.t, err)
	return object{o.kind, now}
}

// edit patches an object as a user does, who knows nothing of versions.
func (f *fleet) edit(o object, patch string, args ...any) {
	f.t.Helper()
	_, err := f.objects(o.kind).Patch(f.t.Context(), o.GetName(), types.MergePatchType,
		fmt.Appendf(nil, patch, args...), metav1.PatchOptions{})
	require.NoError(f.t, err)
}

// owner is the shard that an object belongs to when these are the members.
func (o object) owner(members ...string) string {
	r, err := ring.New(members)
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
func (f *fleet) requirePlaced(members ...string) {
	f.t.Helper()
	var wrong []string
	f.eventually(func() bool {
		wrong = wrong[:0]
		for _, o := range f.list() {
			if problem := o.misplaced(members...); problem != "" {
				wrong = append(wrong, problem)
			}
		}
		return len(wrong) == 0
	}, "not placed among %q: %q", members, &wrong)
}

// requireWorkedOn waits until the last work on each object is its owner's.
func (f *fleet) requireWorkedOn(objects []object, members ...string) {
	f.t.Helper()
	for _, o := range objects {
		f.eventually(func() bool {
			workers := f.referee.workers(o.GetUID())
			return len(workers) > 0 && workers[len(workers)-1] == o.owner(members...)
		}, "%s: %s does not work on it", o.GetName(), o.owner(members...))
	}
}
