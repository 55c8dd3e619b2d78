package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

type workOptions struct {
	identity         string
	takes, pace      time.Duration
	stubborn, writes bool
	controllers      int
	deadly           string // label; empty: none
}

// worker is the controllers of one process.
type worker struct {
	workOptions
	shard     *shard.Shard // nil: one that works on all objects
	client    dynamic.Interface
	mapper    meta.RESTMapper
	resources []api.Resource
	turns     <-chan time.Time // to write
}

// writePace is how often a process writes at most: more than a few of them would keep the API
// server from anything else.
const writePace = 100 * time.Millisecond

// run works until ctx has ended, and returns when nothing is at work any more.
func (w *worker) run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.writes {
		turns := time.NewTicker(writePace)
		defer turns.Stop()
		w.turns = turns.C
	}
	for _, r := range w.resources {
		informer, err := w.informer(r)
		if err != nil {
			return err
		}
		all.Go(func() { informer.RunWithContext(ctx) })
		for range w.controllers {
			all.Go(func() { w.control(ctx, r, informer.GetStore()) })
		}
	}
	<-ctx.Done()
	return nil
}

func (w *worker) informer(r api.Resource) (cache.SharedIndexInformer, error) {
	kind, err := w.mapper.KindFor(r.GVR)
	if err != nil {
		return nil, err
	}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(kind)
	selector := labels.Everything()
	if r.Selector != nil {
		selector = r.Selector
	}
	if w.shard != nil {
		selector = w.shard.Selector(selector)
	}
	client := w.objects(r)
	newInformer := cache.NewSharedIndexInformer
	if w.shard != nil {
		newInformer = w.shard.NewInformer
	}
	return newInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, selected(o, selector))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, selected(o, selector))
		},
	}, example, 0, cache.Indexers{}), nil
}

func selected(o metav1.ListOptions, selector labels.Selector) metav1.ListOptions {
	o.LabelSelector = selector.String()
	return o
}

func (w *worker) objects(r api.Resource) dynamic.ResourceInterface {
	if len(r.Namespaces) == 0 {
		return w.client.Resource(r.GVR)
	}
	return w.client.Resource(r.GVR).Namespace(r.Namespaces[0])
}

// look is how often a controller looks for what there is to do.
const look = 20 * time.Millisecond

// control works on each object of a store as soon as that is there, and again after pauses of
// random length as long as it is: one piece of work at a time.
func (w *worker) control(ctx context.Context, r api.Resource, store cache.Store) {
	var visits sync.WaitGroup
	defer visits.Wait()
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	var mu sync.Mutex
	rests := map[types.UID]time.Time{} // until when; zero: a shard is at work
	for ctx.Err() == nil {
		for _, item := range store.List() {
			obj := item.(*unstructured.Unstructured)
			mu.Lock()
			until, known := rests[obj.GetUID()]
			if due := !known || !until.IsZero() && time.Now().After(until); due {
				rests[obj.GetUID()] = time.Time{}
				visits.Go(func() {
					w.visit(ctx, r, obj)
					mu.Lock()
					defer mu.Unlock()
					rests[obj.GetUID()] = time.Now().Add(rand.N(2 * w.pace))
				})
			}
			mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-ticks.C:
		}
	}
}

// pieces numbers the work of this process.
var pieces atomic.Int64

// do calls work if it may be done.
func (w *worker) do(ctx context.Context, obj *unstructured.Unstructured, work func(ctx context.Context) error) error {
	if w.shard == nil {
		return work(ctx)
	}
	return w.shard.Do(ctx, obj, work)
}

func (w *worker) visit(ctx context.Context, r api.Resource, obj *unstructured.Unstructured) {
	err := w.do(ctx, obj, func(ctx context.Context) error {
		piece := pieces.Add(1)
		say("begin", piece, time.Now().UnixNano(), obj.GetUID())
		defer func() { say("end", piece, time.Now().UnixNano()) }()
		if _, deadly := obj.GetLabels()[w.deadly]; deadly {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		interrupted := ctx.Done()
		if w.stubborn {
			interrupted = nil
		}
		select {
		case <-interrupted:
			return nil
		case <-time.After(w.takes):
		}
		select {
		case <-w.turns: // nil for those that do not write
		default:
			return nil
		}
		// Without a resourceVersion: the API server accepts it, even if the object belongs to
		// another shard by now.
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":"%s/%d"}}}`, w.identity, piece)
		_, err := w.objects(r).Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
	switch {
	case err == nil, errors.Is(err, shard.ErrNotMine), errors.Is(err, shard.ErrNotYet), errors.Is(err,
		shardlease.ErrNotHeld), ctx.Err() != nil:
	default:
		fmt.Fprintln(os.Stderr, err)
	}
}
