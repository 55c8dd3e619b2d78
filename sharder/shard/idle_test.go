package shard_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

const idle = "this shard gets objects of a resource of the ring, and runs no informer of it: nothing works on them"

// Without an informer of a resource, the objects that the shard gets wait. Check and the log say so after a
// minute, as often as they are asked the one, and once for a resource the other.
func TestAResourceWithoutAnInformerIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets, configMaps := corev1.SchemeGroupVersion.WithResource("secrets"),
			corev1.SchemeGroupVersion.WithResource("configmaps")
		resources := []api.Resource{{GVR: configMaps}, {GVR: secrets}}
		ring := shardertest.New(t, shardertest.Config{Resources: resources})
		core, logs := observer.New(zap.WarnLevel)
		var err error
		ring.Shard, err = shard.New(ring.Metadata, ring.Mapper, ring.Lease,
			shard.Config{Resources: resources, Unguarded: true, Logger: zap.New(core)})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		assert.NoError(t, ring.Shard.Check(nil), "it waits for its lease")
		ring.Run(func(ctx context.Context) {
			run := func(ctx context.Context) (stop func()) {
				ctx, cancel := context.WithCancel(ctx)
				ended := make(chan struct{})
				informer := ring.Informer(secrets)
				ring.Go(func(context.Context) error {
					defer close(ended)
					informer.RunWithContext(ctx)
					return nil
				})
				return func() { cancel(); <-ended }
			}
			informer := ring.Informer(configMaps)
			ring.Go(func(ctx context.Context) error {
				informer.RunWithContext(ctx)
				return nil
			})
			check := func(d time.Duration) error {
				for range d / (10 * time.Second) {
					time.Sleep(10 * time.Second)
					err = ring.Shard.Check(nil)
				}
				return err
			}
			assert.NoError(t, ring.Shard.Check(nil))
			assert.NoError(t, check(50*time.Second), "a controller may still be starting")
			assert.ErrorContains(t, check(10*time.Second), "shard: secrets: "+idle)
			assert.ErrorContains(t, check(time.Hour), "shard: secrets: "+idle)
			assert.NotContains(t, err.Error(), "configmaps")
			said := logs.FilterMessage(idle).All()
			require.Len(t, said, 1)
			assert.Equal(t, "secrets", said[0].ContextMap()["resource"])

			stop := run(ctx)
			assert.NoError(t, check(10*time.Second))
			stop()
			assert.NoError(t, check(50*time.Second))
			assert.Error(t, check(time.Minute))
			assert.Len(t, logs.FilterMessage(idle).All(), 1)
		})
		assert.NoError(t, ring.Shard.Check(nil), "the lease was released")
	})
}

// Nor does a shard pass that has objects for which no reconciler asks.
func TestAReconcilerThatDoesNotAskFailsTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		ring := shardertest.New(t, shardertest.Config{Resources: []api.Resource{{GVR: gvr}}})
		ring.Run(func(ctx context.Context) {
			informer := ring.Informer(gvr)
			ring.Go(func(ctx context.Context) error {
				informer.RunWithContext(ctx)
				return nil
			})
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
			ring.Assign(m)
			time.Sleep(59 * time.Second)
			assert.NoError(t, ring.Shard.Check(nil))
			time.Sleep(62 * time.Second)
			assert.ErrorContains(t, ring.Shard.Check(nil), "shard: configmaps: "+unasked)
			assert.NoError(t, ring.Shard.Do(ctx, m, func(context.Context) error { return nil }))
			assert.NoError(t, ring.Shard.Check(nil))
		})
	})
}
