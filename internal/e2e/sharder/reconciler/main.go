// Command reconciler is a controller as users write it, with a shard or without: it patches each
// object of a namespace again and again. For measuring what the shard costs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

type options struct {
	kubeconfig, namespace, ring, identity, selector string
	pace                                            time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path")
	flag.StringVar(&o.namespace, "namespace", "", "of the objects")
	flag.StringVar(&o.ring, "ring", "", "the ring of this shard; empty: none")
	flag.StringVar(&o.identity, "identity", "", "of this replica")
	flag.StringVar(&o.selector, "selector", "", "of the objects, without a ring")
	flag.DurationVar(&o.pace, "pace", time.Second,
		"from the event of an object to the patch that brings about the next one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	if o.ring == "" {
		return control(ctx, config, o, nil)
	}
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	r, err := replica.New(config, replica.Config{
		Namespace: o.namespace, Ring: o.ring, Identity: o.identity,
		Resources: []api.Resource{{GVR: gvr, Namespaces: []string{o.namespace}}},
		Hooks: replica.Hooks{Sharder: sharder.Hooks{
			OnSettled: func(members []string) { fmt.Println("settled", len(members)) },
		}},
	})
	if err != nil {
		return err
	}
	return r.Run(ctx, func(ctx context.Context) error { return control(ctx, r.ShardConfig, o, r.Shard) }, nil)
}

// patched is how many updates this process has made.
var patched atomic.Int64

// control runs an informer, a queue and workers: the same ones with a shard and without.
func control(ctx context.Context, config *rest.Config, o options, shard *shard.Shard) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	objects := client.CoreV1().ConfigMaps(o.namespace)
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, l metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, selected(l, o.selector))
		},
		WatchFuncWithContext: func(ctx context.Context, l metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, selected(l, o.selector))
		},
	}, client)
	newInformer := cache.NewSharedIndexInformer
	if shard != nil {
		newInformer = shard.NewInformer
	}
	informer := newInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	add := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			queue.AddAfter(key, o.pace)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	}); err != nil {
		return err
	}
	reconcile := func(ctx context.Context, obj *corev1.ConfigMap) error {
		n, _ := strconv.Atoi(obj.Data["n"])
		patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n+1)
		_, err := objects.Patch(ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		patched.Add(1)
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { report(ctx) })
	for range 8 {
		running.Go(func() {
			for {
				key, over := queue.Get()
				if over {
					return
				}
				item, exists, _ := informer.GetStore().GetByKey(key)
				if exists {
					obj := item.(*corev1.ConfigMap)
					err := error(nil)
					if shard == nil {
						err = reconcile(ctx, obj)
					} else {
						err = shard.Do(ctx, obj, func(ctx context.Context) error { return reconcile(ctx, obj) })
					}
					if err != nil && ctx.Err() == nil {
						queue.AddAfter(key, o.pace)
					}
				}
				queue.Done(key)
			}
		})
	}
	informer.RunWithContext(ctx)
	queue.ShutDown()
	return nil
}

func selected(o metav1.ListOptions, selector string) metav1.ListOptions {
	if selector != "" {
		o.LabelSelector = selector
	}
	return o
}

// report prints how many updates this process has made whenever it is sent SIGUSR1.
func report(ctx context.Context) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	defer signal.Stop(asked)
	fmt.Println("working")
	for {
		select {
		case <-ctx.Done():
			return
		case <-asked:
			fmt.Println("patched", patched.Load())
		}
	}
}
