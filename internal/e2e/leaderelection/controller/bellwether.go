package main

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/fresh"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// bellwether keeps its cache through terms, outages and losses of leadership.
func (c *controller) bellwether(ctx context.Context) (contend, error) {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(c.config))
	if err != nil {
		return nil, err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: c.namespace, Name: c.lease, Identity: c.identity, StepDown: 3 * time.Second,
		Logger: zap.Must(zap.NewDevelopment()),
	})
	if err != nil {
		return nil, err
	}
	guarded := rest.CopyConfig(c.config)
	guarded.Wrap(elector.WrapTransport)
	work, err := c.newWork(guarded)
	if err != nil {
		return nil, err
	}
	warm, err := c.startCache(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return elector.Run(ctx, func(ctx context.Context) error {
			if err := fresh.Wait(ctx, warm); err != nil {
				return err
			}
			work.run(ctx, warm.Informer.GetStore())
			return nil
		})
	}, nil
}

// startCache returns one that has synced, and runs until ctx has ended.
func (c *controller) startCache(ctx context.Context) (fresh.Cache, error) {
	warm, err := c.cache()
	if err != nil {
		return fresh.Cache{}, err
	}
	go warm.Informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), warm.Informer.HasSynced) {
		return fresh.Cache{}, fmt.Errorf("the cache has not synced: %w", context.Cause(ctx))
	}
	return warm, nil
}
