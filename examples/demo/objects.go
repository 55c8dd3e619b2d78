package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// objects are ConfigMaps that need a checksum, and the users who edit them.
type objects struct {
	client    kubernetes.Interface
	namespace string
	ring      string
	count     int
}

// ours are the labels of the demo's ConfigMaps.
var ours = labels.Set{"example.bellwether.dev/checksum": "wanted", "example.bellwether.dev/demo": "sharding"}

func newObjects(s *stage, ring string, count int) (*objects, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &objects{client: client, namespace: s.namespace, ring: ring, count: count}, nil
}

func objectName(i int) string { return fmt.Sprintf("bellwether-demo-%04d", i) }

// create creates the ConfigMaps without checksums.
func (o *objects) create(ctx context.Context) error {
	const hands = 8
	failures := make([]error, hands)
	var creating sync.WaitGroup
	for h := range hands {
		creating.Go(func() {
			for i := h; i < o.count && failures[h] == nil; i += hands {
				_, failures[h] = o.client.CoreV1().ConfigMaps(o.namespace).Create(ctx, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: objectName(i), Labels: ours},
					Data:       map[string]string{"number": strconv.Itoa(i)},
				}, metav1.CreateOptions{})
			}
		})
	}
	creating.Wait()
	return errors.Join(failures...)
}

// edit changes the data of one ConfigMap after another until ctx has ended.
func (o *objects) edit(ctx context.Context, every time.Duration) error {
	for n := 0; sleep(ctx, every) == nil; n++ {
		patch := fmt.Appendf(nil, `{"data":{"edit":"%d"}}`, n)
		_, err := o.client.CoreV1().ConfigMaps(o.namespace).Patch(ctx, objectName(rand.IntN(o.count)),
			types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// watch reports the ConfigMaps to the census until ctx has ended.
func (o *objects) watch(ctx context.Context, c *census) {
	source := cache.NewFilteredListWatchFromClient(o.client.CoreV1().RESTClient(), "configmaps", o.namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = ours.String() })
	see := func(obj any) {
		if m, ok := obj.(*corev1.ConfigMap); ok {
			c.see(m, time.Now())
		}
	}
	informer := cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{})
	// fails only if stopped
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
	})
	informer.RunWithContext(ctx)
}

// remove deletes the ConfigMaps, and the Leases and the history of the ring.
func (o *objects) remove(ctx context.Context) error {
	maps, leases := o.client.CoreV1().ConfigMaps(o.namespace), o.client.CoordinationV1().Leases(o.namespace)
	return errors.Join(
		maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: ours.String()}),
		leases.DeleteCollection(ctx, metav1.DeleteOptions{},
			metav1.ListOptions{LabelSelector: shardstate.Selector(o.ring).String()}),
		unlessNotFound(leases.Delete(ctx, o.ring+"-sharder", metav1.DeleteOptions{})),
		unlessNotFound(maps.Delete(ctx, sharder.HistoryName(o.ring), metav1.DeleteOptions{})),
	)
}

func unlessNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
