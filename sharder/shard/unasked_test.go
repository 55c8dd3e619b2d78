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

const unasked = "nothing asks the shard about objects of this resource: wrap the reconciler by WrapReconciler of " +
	"module controllerruntime, or call Shard.Do or RunController; behind a proxy, let the program use its address"

// A reconciler that is not wrapped works, and nothing shows that others may work on the same objects.
// The log says so, once, when the informer has shown an object for a while.
func TestAReconcilerThatDoesNotAskIsWarnedOf(t *testing.T) {
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	for name, test := range map[string]struct {
		assigned, asks bool
		warnings       int
	}{
		"not wrapped":          {assigned: true, warnings: 1},
		"wrapped":              {assigned: true, asks: true},
		"nothing is the shard": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resources := []api.Resource{{GVR: gvr}}
				ring := shardertest.New(t, shardertest.Config{Resources: resources})
				core, logs := observer.New(zap.WarnLevel)
				var err error
				ring.Shard, err = shard.New(ring.Metadata, ring.Mapper, ring.Lease,
					shard.Config{Resources: resources, Unguarded: true, Logger: zap.New(core)})
				require.NoError(t, err)
				ring.Run(func(ctx context.Context) {
					for range 2 { // two informers of one resource warn once
						informer := ring.Informer(gvr)
						ring.Go(func(ctx context.Context) error {
							informer.RunWithContext(ctx)
							return nil
						})
					}
					m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
					if test.assigned {
						ring.Assign(m)
					} else {
						ring.Create(m)
					}
					time.Sleep(59 * time.Second)
					if test.asks {
						assert.NoError(t, ring.Shard.Do(ctx, m, func(context.Context) error { return nil }))
					}
					assert.Empty(t, logs.FilterMessage(unasked).All(), "a controller may still be starting")
					time.Sleep(62 * time.Second)
					assert.Len(t, logs.FilterMessage(unasked).All(), test.warnings)
					time.Sleep(time.Hour)
					assert.Len(t, logs.FilterMessage(unasked).All(), test.warnings)
				})
			})
		})
	}
}
