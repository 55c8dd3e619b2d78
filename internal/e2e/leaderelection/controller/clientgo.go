package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// clientGo starts a cache when a term begins, and ends it with the term.
func (c *controller) clientGo() (contend, error) {
	work, err := c.newWork(c.config)
	if err != nil {
		return nil, err
	}
	return c.contendByClientGo(func(ctx context.Context) error {
		cold, err := c.cache()
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer stop()
		running.Go(func() { cold.Informer.RunWithContext(ctx) })
		if cache.WaitForCacheSync(ctx.Done(), cold.Informer.HasSynced) {
			work.run(ctx, cold.Informer.GetStore())
		}
		return nil
	})
}

// warmClientGo has a cache before it contends, as programs with a manager of controller-runtime. Work
// does not wait until that is fresh.
func (c *controller) warmClientGo(ctx context.Context) (contend, error) {
	work, err := c.newWork(c.config)
	if err != nil {
		return nil, err
	}
	warm, err := c.startCache(ctx)
	if err != nil {
		return nil, err
	}
	return c.contendByClientGo(func(ctx context.Context) error {
		work.run(ctx, warm.Informer.GetStore())
		return nil
	})
}

// contendByClientGo has the settings of Kubernetes' own components. The process ends when it loses
// its leadership.
func (c *controller) contendByClientGo(lead func(context.Context) error) (contend, error) {
	const renewDeadline = 10 * time.Second
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, c.namespace, c.lease,
		resourcelock.ResourceLockConfig{Identity: c.identity}, c.config, renewDeadline)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		began, ended := make(chan struct{}), make(chan error, 1)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: renewDeadline, RetryPeriod: 2 * time.Second,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					close(began)
					ended <- lead(ctx)
				},
				OnStoppedLeading: func() {
					if ctx.Err() == nil {
						fmt.Fprintln(os.Stderr, "lost the leadership")
						os.Exit(1)
					}
				},
			},
		})
		select {
		case <-began:
			return <-ended
		default:
			return nil
		}
	}, nil
}
