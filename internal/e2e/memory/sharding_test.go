package memory_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

const (
	ringName = "checksums"
	objects  = 100
)

// sharding is copies of a controller, which share objects.
type sharding struct {
	*cluster
	pieces *referee.Pieces
	shards map[string]*e2e.Process
	living []string
}

func (d *sharding) launch(name string) {
	d.t.Helper()
	d.shards[name] = d.start("sharding", e2e.Command{
		Name: name, OnLine: func(line string) { d.pieces.Note(name, line) },
		Args: []string{
			"-kubeconfig", d.kubeconfig, "-namespace", namespace, "-lease-duration", lease.String(),
			"-identity", name, "-ring", ringName, "-resync", "500ms", "-work-takes", "5ms", "-journal",
		},
	})
	d.living = append(d.living, name)
}

func (d *sharding) leave(name string) {
	d.living = slices.DeleteFunc(d.living, func(shard string) bool { return shard == name })
}

// requireSettled waits until each object is with its shard by the ring, which has worked on it.
func (d *sharding) requireSettled() {
	d.t.Helper()
	weights := map[string]int{}
	for _, name := range d.living {
		weights[name] = shardlease.DefaultWeight
	}
	members, err := sharder.RingOf(weights)
	require.NoError(d.t, err)
	d.eventually(func() bool {
		list, err := d.client.CoreV1().ConfigMaps(namespace).List(d.t.Context(), metav1.ListOptions{
			LabelSelector: "example.bellwether.dev/checksum=wanted",
		})
		if err != nil {
			return false
		}
		for _, m := range list.Items {
			key := api.ObjectKey(nil, schema.GroupKind{Kind: "ConfigMap"}, &m)
			owner, _ := members.OwnerBytes(key)
			_, leaving := m.Labels[api.DrainLabel(ringName)]
			if leaving || m.Labels[api.ShardLabel(ringName)] != owner || !d.pieces.Worked(owner, m.Name) {
				return false
			}
		}
		return len(list.Items) == objects
	}, "the objects are with %v", d.living)
}

// Shards come, are killed, and end. No object ever has two that work on it, and each ends with one that
// lives.
func TestSharding(t *testing.T) {
	t.Parallel()
	d := &sharding{cluster: newCluster(t), pieces: referee.NewPieces(), shards: map[string]*e2e.Process{}}
	for i := range objects {
		_, err := d.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprintf("object-%d", i),
				Labels: map[string]string{"example.bellwether.dev/checksum": "wanted"},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		d.launch(name)
	}
	d.requireSettled()
	d.launch("d")
	d.requireSettled()

	killed := d.pieces.Sharder() // so that the sharder, too, needs a successor
	d.leave(killed)
	require.NoError(t, d.shards[killed].Kill())
	d.requireSettled()

	ended := d.living[0]
	d.leave(ended)
	require.NoError(t, d.shards[ended].Terminate())
	d.requireExit(d.shards[ended], 0)
	d.requireSettled()

	require.NoError(t, d.group.Close())
	for name, p := range d.shards {
		d.pieces.Exited(name, d.requireEnd(p).At)
	}
	overlap, n := d.pieces.Verdict()
	assert.Empty(t, overlap, "two shards work on one object")
	t.Logf("%d pieces of work compared", n)
}
