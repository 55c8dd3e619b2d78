package sharder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// The names of what the protocol writes on objects.
var (
	shardLabel = api.ShardLabel(ringName)
	drainLabel = api.DrainLabel(ringName)
)

// recordAnnotation has the record of an object of a kind.
func recordAnnotation(k kind) string {
	return api.RecordAnnotation(ringName, k.Resource.GroupResource())
}

// edits are changes that users make to an object. With each goes how many writes of shards the
// sharder needs before it can repair the object by one patch.
var edits = []struct {
	name   string
	do     func(c *cluster, o object, other string)
	bounce int
}{
	{"label removed", func(c *cluster, o object, _ string) {
		c.edit(o, `{"metadata":{"labels":{%q:null}}}`, shardLabel)
	}, 0},
	{"label of another shard", func(c *cluster, o object, other string) {
		c.edit(o, `{"metadata":{"labels":{%q:%q}}}`, shardLabel, other)
	}, 1},
	{"label of no shard", func(c *cluster, o object, _ string) {
		c.edit(o, `{"metadata":{"labels":{%q:"no-shard"}}}`, shardLabel)
	}, 0},
	{"record removed", func(c *cluster, o object, _ string) {
		c.edit(o, `{"metadata":{"annotations":{%q:null}}}`, recordAnnotation(o.kind))
	}, 1},
	{"replaced", func(c *cluster, o object, _ string) { c.strip(o) }, 0},
	{"drain label set", func(c *cluster, o object, _ string) {
		c.edit(o, `{"metadata":{"labels":{%q:"user"}}}`, drainLabel)
	}, 1},
}

// strip replaces an object by its manifest, as kubectl replace does: without anything that the
// protocol has written.
func (c *cluster) strip(o object) {
	c.t.Helper()
	manifest := &unstructured.Unstructured{}
	manifest.SetGroupVersionKind(o.GroupVersionKind())
	manifest.SetName(o.GetName())
	manifest.SetLabels(map[string]string{"test": c.namespace})
	_, err := c.objects(o.kind).Update(c.t.Context(), manifest, metav1.UpdateOptions{})
	require.NoError(c.t, err)
}

func TestEditsAreRepaired(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"by watches of strays": nil, "by a watch of all": {"-watch-all"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				c := newCluster(t)
				halves := func(all []object) (mine, others []object) {
					return ownedBy(all, "a", "a", "b"), ownedBy(all, "b", "a", "b")
				}
				c.createUntil(func(all []object) bool {
					mine, others := halves(all)
					return min(len(mine), len(others)) > len(edits)
				})
				args := append(args, "-scan-interval=1s", "-write", "-work=50ms", "-stubborn", "-pace=100ms")
				c.start("a", args...)
				c.start("b", args...)
				c.requireSettled("a", "b")
				all := c.list()
				c.requireWorkedOn(all, "a", "b")
				before := time.Now()

				edited := map[string]string{}
				mine, others := halves(all)
				for i, edit := range edits {
					edit.do(c, mine[i], "b")
					edit.do(c, others[i], "a")
					edited[mine[i].GetName()], edited[others[i].GetName()] = edit.name, edit.name
				}
				clone := c.clone(mine[len(edits)])
				c.requireRepaired(append(all, clone), "a", "b")
				c.requireWorkedOn(append(all, clone), "a", "b")

				costs := c.costsWhen(before, func(costs map[string]cost) bool {
					for _, c := range costs {
						if c.sharder == 0 {
							return false
						}
					}
					return len(costs) > len(edited)
				})
				for _, edit := range edits {
					for name, cost := range costs {
						if edited[name] != edit.name {
							continue
						}
						assert.Equal(t, 1, cost.sharder, "%s: %v", edit.name, cost)
						assert.LessOrEqual(t, cost.shard, edit.bounce, "%s: %v", edit.name, cost)
					}
				}
				assert.Equal(t, 1, costs[clone.GetName()].sharder, "%v", costs[clone.GetName()])
				assert.LessOrEqual(t, costs[clone.GetName()].shard, 1, "%v", costs[clone.GetName()])
				assert.Len(t, costs, len(edited)+1, "every edit was noticed, and nothing else changed")
				c.requireExclusion()
			})
		})
	}
}

// clone creates an object with all labels and annotations of another, as controllers do that know
// no better.
func (c *cluster) clone(o object) object {
	c.t.Helper()
	now := c.get(o)
	copied := &unstructured.Unstructured{}
	copied.SetGroupVersionKind(now.GroupVersionKind())
	copied.SetGenerateName("clone-")
	copied.SetLabels(now.GetLabels())
	annotations := now.GetAnnotations()
	delete(annotations, "by")
	copied.SetAnnotations(annotations)
	created, err := c.objects(o.kind).Create(c.t.Context(), copied, metav1.CreateOptions{})
	require.NoError(c.t, err)
	return object{o.kind, created}
}

// requireRepaired waits until every one of these objects is where the ring says.
func (c *cluster) requireRepaired(all []object, members ...string) {
	c.t.Helper()
	for _, o := range all {
		var problem string
		c.eventually(func() bool {
			problem = c.get(o).misplaced(members...)
			return problem == ""
		}, "not repaired: %s", o.GetName())
	}
}

// TestEditsWhileTheRingIsUnsettled removes what the protocol knows of objects that others may be at
// work on. b never lets go of anything.
func TestEditsWhileTheRingIsUnsettled(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		ab, abc := []string{"a", "b"}, []string{"a", "b", "c"}
		share := func(all []object, before, after string) []object {
			return ownedBy(ownedBy(all, before, ab...), after, abc...)
		}
		c.createUntil(func(all []object) bool {
			return len(share(all, "a", "a")) > 0 && len(share(all, "a", "c")) > 0 && len(share(all, "b", "c")) > 1
		})
		c.start("a", "-scan-interval=1s", "-write", "-work=50ms", "-stubborn", "-pace=100ms")
		b := c.start("b", "-without-sharder", "-work=1h", "-stubborn")
		c.requireSettled("a", "b")
		all := c.list()
		c.requireWorkedOn(all, "a", "b")
		c.start("c", "-without-sharder", "-write", "-work=50ms", "-stubborn", "-pace=100ms")
		kept, went, stuck := share(all, "a", "a"), share(all, "a", "c"), share(all, "b", "c")
		isAskedOf := func(o object, shard string) func() bool {
			return func() bool {
				v := versionOf(c.get(o))
				return v.drained && v.shard == shard && v.owner.Shard == shard
			}
		}
		c.requireRepaired(went, abc...)
		c.requireWorkedOn(went, abc...)
		workers := map[types.UID][]string{} // a may have had all objects before b was there
		for _, o := range stuck {
			c.eventually(isAskedOf(o, "b"), "%s: not drained", o.GetName())
			workers[o.GetUID()] = c.referee.workers(o.GetUID())
		}

		before := time.Now()
		c.strip(kept[0])
		c.strip(went[0])
		c.strip(stuck[0])
		c.edit(stuck[1], `{"metadata":{"labels":{%q:null}}}`, drainLabel)
		c.requireRepaired([]object{kept[0], went[0]}, abc...)
		c.eventually(isAskedOf(stuck[0], "b"), "a shard that may be at work was not asked")
		c.eventually(isAskedOf(stuck[1], "b"), "not drained again")
		costs := c.costsWhen(before, func(costs map[string]cost) bool {
			return costs[kept[0].GetName()].sharder > 0 &&
				// which the log may show later, though it was before
				costs[went[0].GetName()].sharder > 1 && costs[went[0].GetName()].shard > 0 &&
				costs[stuck[0].GetName()].sharder > 0 && costs[stuck[1].GetName()].sharder > 0
		})
		assert.Equal(t, cost{sharder: 1}, costs[kept[0].GetName()], "no other candidate")
		assert.Equal(t, cost{sharder: 2, shard: 1}, costs[went[0].GetName()], "a may be at work on it")
		assert.Equal(t, cost{sharder: 1}, costs[stuck[0].GetName()], "b is")
		assert.Equal(t, cost{sharder: 1}, costs[stuck[1].GetName()])
		for _, o := range stuck {
			assert.Equal(t, workers[o.GetUID()], c.referee.workers(o.GetUID()), "only b works on it")
		}

		require.NoError(t, b.Kill())
		c.requireSettled("a", "c")
		c.requireWorkedOn(all, "a", "c")
		c.requireExclusion()
	})
}
