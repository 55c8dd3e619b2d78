package shard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// The delay before a retry for an object that work may not begin on yet grows between these,
// because most often a cache is some milliseconds behind another one.
const (
	minRetryDelay = 10 * time.Millisecond
	maxRetryDelay = time.Second
)

// RunController runs a controller. It calls reconcile, through [Shard.Do], with a copy of each
// object of this shard when the object arrives and whenever it changes, with one call at a time for
// each object. If reconcile returns an error, it is called again after pauses that grow up to a
// minute. T is the type of the informer's objects.
//
// RunController runs this number of worker goroutines and, unless it runs already, source, an
// informer that must come from [Shard.NewInformer]. It returns nil when ctx has ended and all calls
// have returned. An informer runs once, so it is an error if source has ended with an earlier
// context.
func RunController[T Object](
	ctx context.Context, shard *Shard, source cache.SharedIndexInformer, workers int,
	reconcile func(context.Context, T) error,
) error {
	if workers < 1 {
		return fmt.Errorf("shard: workers: must be positive (got %d)", workers)
	}
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](50*time.Millisecond, time.Minute),
	)
	defer queue.ShutDown()
	enqueue := func(obj any) {
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	run := source.RunWithContext
	own, _ := source.(*informer)
	warm := own != nil && !own.start()
	switch {
	case warm && own.IsStopped() && ctx.Err() == nil:
		return errors.New("shard: RunController: source has ended with an earlier context, and cannot run again: " +
			"make an informer in each term, or run it for the life of the process")
	case warm:
		own.await(ctx)
	case own != nil:
		run = own.run
	}
	if ctx.Err() != nil {
		return nil // the informer may have ended with it
	}
	handler, err := source.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
	})
	if err != nil {
		return fmt.Errorf("shard: watch the objects: %w", err)
	}
	controller := &controller[T]{
		shard: shard, informer: source, queue: queue, reconcile: reconcile,
		waits: workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](minRetryDelay, maxRetryDelay),
	}
	var running sync.WaitGroup
	defer running.Wait()
	for range workers {
		running.Go(func() {
			for controller.next(ctx) {
			}
		})
	}
	if warm {
		<-ctx.Done()
		err = source.RemoveEventHandler(handler)
	} else {
		run(ctx)
	}
	queue.ShutDown()
	return err
}

type controller[T Object] struct {
	shard     *Shard
	informer  cache.SharedIndexInformer
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	waits     workqueue.TypedRateLimiter[cache.ObjectName] // for objects that work may not begin on yet
	reconcile func(context.Context, T) error
}

// next reconciles one object, and reports whether there may be more.
func (c *controller[T]) next(ctx context.Context) bool {
	name, over := c.queue.Get()
	if over {
		return false
	}
	defer c.queue.Done(name)
	item, exists, err := c.informer.GetStore().GetByKey(name.String())
	if err != nil || !exists || ctx.Err() != nil { // deleted, or another shard's
		c.queue.Forget(name)
		c.waits.Forget(name)
		return true
	}
	cached, ok := item.(T)
	if !ok {
		c.shard.config.Logger.Error(
			"an informer's objects are not of the type to be reconciled", zap.String("type", fmt.Sprintf("%T", item)),
		)
		return true
	}
	obj := cached.DeepCopyObject().(T) //nolint:forcetypeassert // a copy has the type of what it is a copy of
	err = c.shard.Do(ctx, obj, func(ctx context.Context) error { return c.reconcile(ctx, obj) })
	if errors.Is(err, ErrNotYet) {
		c.queue.AddAfter(name, c.waits.When(name))
		return true
	}
	c.waits.Forget(name)
	switch {
	case err == nil, errors.Is(err, ErrNotMine):
		c.queue.Forget(name)
		return true
	case ctx.Err() == nil:
		c.shard.config.Logger.Warn("reconciling failed, retrying",
			zap.Stringer("object", name), zap.Error(err), zap.Int("failures", c.queue.NumRequeues(name)+1))
	}
	c.queue.AddRateLimited(name)
	return true
}
