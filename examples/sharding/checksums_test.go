package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

func TestChecksumsCoverThisShardsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := shardertest.New(t, shardertest.Config{
			Resources: []api.Resource{{GVR: configMaps, Selector: wanted}},
		})
		work := checksums{
			client: ring.Client, shard: ring.Shard, namespace: "default", workers: 2, journal: true,
			log: zaptest.NewLogger(t),
		}
		ring.Run(func(context.Context) {
			ring.Go(work.run)
			ring.Assign(configMap("mine"))
			ring.Create(configMap("somebody-elses"))
			synctest.Wait() // until nothing is left to do
		})
		all, err := ring.Client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		sums := map[string]string{}
		for _, m := range all.Items {
			sums[m.Name] = m.Annotations[checksumAnnotation]
		}
		assert.Equal(t, map[string]string{
			// sha256 of {"a":"1","b":"2"}
			"mine":           "21f76dfbfe6dfe21f762080ef484112cf2952974cef30741fd1931e1c6d92112",
			"somebody-elses": "",
		}, sums)
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{
			"example.bellwether.dev/checksum": "wanted",
		}},
		Data: map[string]string{"b": "2", "a": "1"},
	}
}
