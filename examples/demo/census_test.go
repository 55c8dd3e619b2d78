package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// at is some seconds after the beginning.
func at(seconds float64) time.Time { return time.Unix(0, int64(seconds*1e9)) }

// configMap is a ConfigMap of a shard, or of none.
func configMap(i int, shard string, leaving bool) *corev1.ConfigMap {
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{},
			Annotations: map[string]string{},
		},
		Data: map[string]string{"a": "1"},
	}
	if shard != "" {
		m.Labels[api.ShardLabel("r")] = shard
	}
	if leaving {
		m.Labels[api.DrainLabel("r")] = "true"
	}
	return m
}

func TestCensusCounts(t *testing.T) {
	c := newCensus("r")
	c.see(configMap(1, "a", false), at(0))
	c.see(configMap(2, "b", true), at(0))
	right := configMap(3, "", false)
	sum := "4bd2f7fdbb1bc9a64ee0a4d0f8ff08dfff4d4e56dd9b9d8e7b1f9a4c9df0b4ee"
	right.Annotations["example.bellwether.dev/sha256"] = sum
	c.see(right, at(0))
	assert.Zero(t, c.right())
	right.Annotations["example.bellwether.dev/sha256"] = checksum(right.Data)
	c.see(right, at(0))
	assert.Equal(t, 1, c.right())
	assert.Equal(t, "               a     b    none  moving   right checksums", header([]string{"a", "b"}))
	assert.Equal(t, "  1.50 s       1     1       1       1           1/3",
		c.row([]string{"a", "b"}, 1500*time.Millisecond))
}

func TestCensusCountsMoves(t *testing.T) {
	c := newCensus("r")
	c.see(configMap(1, "", false), at(1))
	c.see(configMap(1, "a", false), at(2))
	c.see(configMap(2, "a", false), at(3))
	assert.Equal(t, move{objects: 2, first: at(2), last: at(3)}, c.since())
	c.mark()
	c.see(configMap(1, "a", true), at(4)) // drained, let go of, assigned
	c.see(configMap(1, "", false), at(5))
	c.see(configMap(1, "b", false), at(5.5))
	c.see(configMap(2, "a", true), at(6)) // and not
	c.see(configMap(2, "a", false), at(9))
	assert.Equal(t, move{objects: 1, first: at(5.5), last: at(5.5), unattended: 1500 * time.Millisecond}, c.since())
}

func TestCensusKnowsWhereObjectsBelong(t *testing.T) {
	c := newCensus("r")
	placed := func(n int, shards ...string) bool {
		t.Helper()
		ok, err := c.placed(n, shards)
		require.NoError(t, err)
		return ok
	}
	c.see(configMap(1, "a", false), at(0))
	assert.True(t, placed(1, "a"))
	assert.False(t, placed(2, "a"))
	assert.False(t, placed(1, "b"))
	c.see(configMap(1, "a", true), at(0))
	assert.False(t, placed(1, "a"))
}
