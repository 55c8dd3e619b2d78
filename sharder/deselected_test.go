package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// An object that is no longer selected loses its marks as soon as no shard is at work on it, with its
// children, and then nothing keeps the Lease of its shard.
func TestADeselectedObjectOfADeadShardLosesItsMarks(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		c := k.familyConfig()
		c.Resources[0].Selector = ringtest.SelectorOf(t, "sharded=true")
		c.GCPeriod, c.ScanInterval = 2*time.Minute, time.Minute
		defer k.sharder(c)()
		a := k.shard("a")
		time.Sleep(time.Second)
		k.create(10, "o")
		k.bear(2, true)
		for _, o := range k.objects() {
			k.edit(o.Name, `{"metadata":{"labels":{"sharded":"true"}}}`)
		}
		time.Sleep(5 * time.Second)
		k.requireFamilies(2)
		k.edit("o-003", `{"metadata":{"labels":{"sharded":null}}}`)
		k.shard("b")
		a.kill()
		time.Sleep(20 * time.Minute)
		assert.Contains(t, k.told(), "collected a")
		o := k.objectOf("o-003")
		assert.Empty(t, o.Labels)
		_, recorded := k.keys.RecordOf(o)
		assert.False(t, recorded)
		for _, child := range k.children()[o.UID] {
			assert.NotContains(t, child.Labels, k.keys.Shard)
		}
		k.edit("o-003", `{"metadata":{"labels":{"sharded":"true"}}}`)
		time.Sleep(time.Minute)
		k.requireFamilies(2)
	})
}

func TestWhatASelectorDoesNotSelectIsSelectedByAnother(t *testing.T) {
	for _, text := range []string{
		"x", "!x", "x=a", "x!=a", "x in (a,b)", "x notin (a,b)", "x>3", "x<3", "x,y=a", "x=a,!y,z in (a,b)",
	} {
		selector, err := labels.Parse(text)
		require.NoError(t, err)
		all := deselected(selector, "shard")
		for _, x := range []string{"", "a", "b", "2", "4"} {
			for _, y := range []string{"", "a"} {
				for _, z := range []string{"", "a"} {
					set := labels.Set{"shard": "s"}
					for key, value := range map[string]string{"x": x, "y": y, "z": z} {
						if value != "" {
							set[key] = value
						}
					}
					found := false
					for _, other := range all {
						found = found || other.Matches(set)
						assert.False(t, other.Matches(labels.Set{"x": x, "y": y, "z": z}), text)
					}
					if !selector.Matches(set) {
						assert.True(t, found, "%s: %v", text, set)
					}
				}
			}
		}
	}
}
