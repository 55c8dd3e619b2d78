package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// work counts its writes through all terms, in one ConfigMap.
type work struct {
	client          coreclient.ConfigMapInterface
	namespace, name string
	writes          bool // all the time, not once
}

func (c *controller) newWork(config *rest.Config) (*work, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &work{client.CoreV1().ConfigMaps(c.namespace), c.namespace, c.lease, c.writes}, nil
}

// run continues from what the cache shows, until ctx has ended.
func (w *work) run(ctx context.Context, store cache.Store) {
	n := w.shown(store)
	fmt.Println("works", time.Now().UnixNano(), n)
	for ctx.Err() == nil {
		if err := w.write(ctx, n+1); err != nil { // it may be carried out all the same
			fmt.Fprintln(os.Stderr, err)
			pause(ctx)
			continue
		}
		n++
		if !w.writes {
			<-ctx.Done()
		}
	}
	fmt.Println("ended", time.Now().UnixNano(), n)
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

func (w *work) shown(store cache.Store) (n int) {
	if o, exists, _ := store.GetByKey(w.namespace + "/" + w.name); exists {
		n, _ = strconv.Atoi(o.(*corev1.ConfigMap).Data["n"])
	}
	return n
}

func (w *work) write(ctx context.Context, n int) error {
	patch := fmt.Appendf(nil, `{"data":{"n":"%d","at":"%d"}}`, n, time.Now().UnixNano())
	_, err := w.client.Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
