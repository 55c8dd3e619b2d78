package controllerruntime

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/bellwether-k8s/bellwether/fresh"
)

// kind is what a cache has informers for: the objects of a kind in one form.
type kind struct {
	schema.GroupVersionKind
	form
}

type form int

const (
	typed form = iota
	unstructured
	metadata
)

// index is one of the indexes of a kind.
type index struct {
	kind  kind
	field string
}

// warmCache is the cache of the process, with its informers and their indexes.
type warmCache struct {
	cache.Cache
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	over   <-chan struct{} // closed when the process is asked to end

	mu      sync.RWMutex
	known   map[kind][]*fresh.Cache // guarded by mu; the slices do not change
	indexed map[index]struct{}      // guarded by mu
}

// wrap returns a function that makes the cache by inner, or by controller-runtime's default if inner is nil.
func (w *warmCache) wrap(inner cache.NewCacheFunc) cache.NewCacheFunc {
	if inner == nil {
		inner = cache.New
	}
	return func(config *rest.Config, o cache.Options) (cache.Cache, error) {
		w.scheme, w.mapper = o.Scheme, o.Mapper
		w.known, w.indexed = map[kind][]*fresh.Cache{}, map[index]struct{}{}
		newInformer := o.NewInformer
		if newInformer == nil {
			newInformer = newHeldInformer
		}
		o.NewInformer = func(
			source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			informer := newInformer(source, example, resync, indexers)
			if own, ok := informer.(interface {
				Source() toolscache.ListerWatcher
			}); ok {
				source = own.Source() // that of a shard's informer shows no objects of others
			}
			w.record(example, &fresh.Cache{Informer: informer, Source: source})
			return transformed{informer}
		}
		var err error
		w.Cache, err = inner(config, o)
		return w, err
	}
}

// heldInformer is an informer that lists again on standby only when the leaders have listed.
type heldInformer struct {
	toolscache.SharedIndexInformer
	source *fresh.Relister
}

func newHeldInformer(
	source toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	held := fresh.NewRelister(source)
	return heldInformer{toolscache.NewSharedIndexInformer(held, example, resync, indexers), held}
}

// Source is like that of a shard's informer.
func (i heldInformer) Source() toolscache.ListerWatcher { return i.source }

func (w *warmCache) record(example runtime.Object, c *fresh.Cache) {
	k, err := w.kindOf(example)
	if err == nil {
		// The cache has asked the mapper before it makes an informer.
		if mapping, err := w.mapper.RESTMapping(k.GroupKind(), k.Version); err == nil {
			c.Resource = mapping.Resource.GroupResource()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[k] = append(w.known[k][:len(w.known[k]):len(w.known[k])], c)
}

// kindOf returns the kind of an object, or of those in a list.
func (w *warmCache) kindOf(o runtime.Object) (kind, error) {
	gvk, err := apiutil.GVKForObject(o, w.scheme)
	if err != nil {
		return kind{}, err
	}
	k := kind{GroupVersionKind: gvk}
	switch o.(type) {
	case runtime.Unstructured:
		k.form = unstructured
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		k.form = metadata
	}
	if _, list := o.(client.ObjectList); list {
		k.Kind = strings.TrimSuffix(k.Kind, "List")
	}
	return k, nil
}

// informersOf returns the informers of a kind, one for each namespace, and those whose kind is unknown.
func (w *warmCache) informersOf(k kind) []*fresh.Cache {
	w.mu.RLock()
	defer w.mu.RUnlock()
	of := w.known[k]
	if unknown := w.known[kind{}]; len(unknown) > 0 {
		of = append(of[:len(of):len(of)], unknown...)
	}
	return of
}

// isIndexed reports whether there is an index of a kind by a field.
func (w *warmCache) isIndexed(i index) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, ok := w.indexed[i]
	return ok
}

// IndexField implements cache.Cache.
func (w *warmCache) IndexField(ctx context.Context, o client.Object, field string, f client.IndexerFunc) error {
	if err := w.Cache.IndexField(ctx, o, field, f); err != nil {
		return err
	}
	if k, err := w.kindOf(o); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.indexed[index{k, field}] = struct{}{}
	}
	return nil
}

// RemoveInformer implements cache.Cache.
func (w *warmCache) RemoveInformer(ctx context.Context, o client.Object) error {
	if err := w.Cache.RemoveInformer(ctx, o); err != nil {
		return err
	}
	if k, err := w.kindOf(o); err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.known, k)
		maps.DeleteFunc(w.indexed, func(i index, _ struct{}) bool { return i.kind == k })
	}
	return nil
}

// WaitForCacheSync implements cache.Cache. It also returns when the process is asked to end, because a
// manager would otherwise keep waiting for its caches, with a core at 100 %, until they have synced.
func (w *warmCache) WaitForCacheSync(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	synced := make(chan bool, 1)
	go func() { synced <- w.Cache.WaitForCacheSync(ctx) }()
	select {
	case ok := <-synced:
		return ok
	case <-w.over:
		return true
	}
}
