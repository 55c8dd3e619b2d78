package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	// wanted are the objects that are distributed.
	wanted = labels.SelectorFromSet(labels.Set{"chaos.bellwether.dev/checksum": "wanted"})
)

const (
	// sumAnnotation has the SHA-256 of the JSON of the data.
	sumAnnotation = "chaos.bellwether.dev/sha256"
	// byAnnotation names the piece of work that has written last: <shard>/<UID of its
	// Lease>/<epoch>/<process>/<piece>.
	byAnnotation = "chaos.bellwether.dev/by"
	// madeAnnotation names the piece of work that has created a child.
	madeAnnotation = "chaos.bellwether.dev/made"

	workers = 16
	resync  = 15 * time.Second // work also continues without changes
)

// work is the controller.
type work struct {
	client    kubernetes.Interface // guarded by the lease
	shard     *shard.Shard
	journal   *journal
	namespace string
	identity  string
	slowness  float64
	roots     cache.Store // from run on
	children  *children   // from run on
}

func (w *work) run(ctx context.Context) error {
	core := w.client.CoreV1()
	roots := w.shard.NewInformer(shard.ListerWatcher(core.ConfigMaps(w.namespace), w.client), &corev1.ConfigMap{},
		resync, cache.Indexers{})
	below := w.shard.NewInformer(shard.ListerWatcher(core.Secrets(w.namespace), w.client), &corev1.Secret{}, 2*resync,
		cache.Indexers{parentIndex: byParent})
	w.roots = roots.GetStore()
	w.children = &children{cache: below.GetIndexer(), expected: map[types.UID]expectation{}}
	var both sync.WaitGroup
	defer both.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	both.Go(func() {
		if err := shard.RunController(ctx, w.shard, below, workers, w.tend); err != nil {
			panic(err) // of too few workers
		}
	})
	return shard.RunController(ctx, w.shard, roots, workers, w.reconcile)
}

func (w *work) reconcile(ctx context.Context, m *corev1.ConfigMap) error {
	piece, end := w.journal.begin(m.UID)
	defer end()
	if err := w.toil(ctx); err != nil {
		return err
	}
	sum := checksum(m.Data)
	if err := w.ensure(ctx, m, sum, piece); err != nil {
		return ignoreGone(err)
	}
	if m.Annotations[sumAnnotation] == sum && rand.IntN(4) > 0 {
		return nil
	}
	patch, err := w.patch(ctx, m.UID, map[string]string{sumAnnotation: sum}, piece)
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().ConfigMaps(m.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "chaos"})
	return ignoreGone(err)
}

// patch of annotations, and of the signature. It names no version: the API server accepts it even
// if the object has another owner by now.
func (w *work) patch(ctx context.Context, object types.UID, annotations map[string]string, piece int64) ([]byte,
	error,
) {
	by, err := w.signature(ctx, piece)
	if err != nil {
		return nil, err
	}
	annotations[byAnnotation] = by
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": object, "annotations": annotations}})
}

// ignoreGone drops errors that say that an object is gone, or is another of the same name.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// signature names a piece of work under the term of ctx.
func (w *work) signature(ctx context.Context, piece int64) (string, error) {
	term, ok := shardlease.TermFrom(ctx)
	if !ok {
		return "", fmt.Errorf("piece %d of work belongs to no term", piece)
	}
	e := term.Epoch()
	return fmt.Sprintf("%s/%s/%d/%d/%d", w.identity, e.LeaseUID, e.Number, os.Getpid(), piece), nil
}

// toil takes a while: mostly not long, and sometimes whatever becomes of ctx, as work does that
// waits for something else.
func (w *work) toil(ctx context.Context) error {
	takes := rand.N(20 * time.Millisecond)
	switch rand.IntN(20) {
	case 0:
		takes = rand.N(2 * time.Second)
	case 1, 2, 3:
		takes = rand.N(300 * time.Millisecond)
	}
	interrupted := ctx.Done()
	if rand.IntN(2) == 0 {
		interrupted = nil
	}
	select {
	case <-interrupted:
		return context.Cause(ctx)
	case <-time.After(time.Duration(float64(takes) * w.slowness)):
		return nil
	}
}

func checksum(data map[string]string) string {
	encoded, err := json.Marshal(data) // sorts the keys
	if err != nil {
		panic(err) // impossible for strings
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
