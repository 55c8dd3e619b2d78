package shardlease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestWeightOf(t *testing.T) {
	const own, given = shardrecord.OwnWeightAnnotation, shardlease.WeightAnnotation
	const rule = "annotation ring.bellwether.dev/weight: must be a whole number from 0 to 1000"
	for name, c := range map[string]struct {
		annotations map[string]string
		weight      int
		ignored     string // the quoted value of the annotation, if it is invalid
	}{
		"none":                      {nil, 100, ""},
		"its own":                   {map[string]string{own: "30"}, 30, ""},
		"its own, of zero":          {map[string]string{own: "0"}, 0, ""},
		"its own, edited":           {map[string]string{own: "x"}, 100, ""},
		"given":                     {map[string]string{given: "5"}, 5, ""},
		"the greatest":              {map[string]string{given: "1000"}, 1000, ""},
		"given instead of its own":  {map[string]string{own: "30", given: "0"}, 0, ""},
		"given, its own was edited": {map[string]string{own: "x", given: "5"}, 5, ""},
		"too great":                 {map[string]string{own: "30", given: "1001"}, 30, `"1001"`},
		"negative":                  {map[string]string{given: "-1"}, 100, `"-1"`},
		"a part":                    {map[string]string{given: "0.5"}, 100, `"0.5"`},
		"in another form":           {map[string]string{given: "005"}, 100, `"005"`},
		"a word":                    {map[string]string{own: "0", given: "heavy"}, 0, `"heavy"`},
		"nothing":                   {map[string]string{given: ""}, 100, `""`},
	} {
		l := shardLease("a", true)
		for key, value := range c.annotations {
			l.Annotations[key] = value
		}
		weight, err := shardlease.WeightOf(l)
		assert.Equal(t, c.weight, weight, name)
		if c.ignored == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.EqualError(t, err, rule+" (got "+c.ignored+")", name)
	}
	weight, err := shardlease.WeightOf(nil)
	assert.NoError(t, err)
	assert.Equal(t, 100, weight)
}

// A shard's Lease has its own weight and its version as long as it is held, whatever users write. What an
// administrator has written is theirs: it outlives renewals, a release and a restart.
func TestALeaseHasWeightAndVersion(t *testing.T) {
	inCluster(t, func(c *cluster) {
		configured := func(config *shardlease.Config) { config.Weight, config.Version = ptr.To(30), "v1.2.3" }
		s := newShard(c, configured).start(c)
		own := func() [2]string {
			annotations := c.lease().Annotations
			return [2]string{
				annotations[shardrecord.OwnWeightAnnotation], annotations[shardrecord.VersionAnnotation],
			}
		}
		assert.Equal(t, [2]string{"30", "v1.2.3"}, own())
		c.patch(`{"metadata":{"annotations":{"ring.bellwether.dev/own-weight":"7","ring.bellwether.dev/version":null,` +
			`"ring.bellwether.dev/weight":"0"}}}`)
		c.requireWeight(0)
		time.Sleep(interval + time.Second)
		assert.Equal(t, [2]string{"30", "v1.2.3"}, own(), "restored by a renewal")
		c.requireWeight(0)
		require.NoError(t, s.stop())
		c.requireWeight(0)
		assert.Empty(t, s.losses())

		s = newShard(c, nil).start(c) // of another configuration
		assert.Equal(t, [2]string{}, own(), "the default, and no version")
		c.requireWeight(0)
		c.patch(`{"metadata":{"annotations":{"ring.bellwether.dev/weight":null}}}`)
		c.requireWeight(100)
		s.die()
		newShard(c, configured).start(c)
		time.Sleep(duration + time.Second)
		assert.Equal(t, [2]string{"30", "v1.2.3"}, own())
		c.requireWeight(30)
	})
}

func TestAShardOfNoWeightSaysSo(t *testing.T) {
	inCluster(t, func(c *cluster) {
		newShard(c, func(config *shardlease.Config) { config.Weight = ptr.To(0) }).start(c)
		c.requireWeight(0)
	})
}

// requireWeight asserts that the shard counts with this weight.
func (c *cluster) requireWeight(want int) {
	c.Helper()
	weight, err := shardlease.WeightOf(c.lease())
	require.NoError(c, err)
	assert.Equal(c, want, weight)
}
