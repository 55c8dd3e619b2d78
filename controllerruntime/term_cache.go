package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bellwether-k8s/bellwether/fresh"
)

var errTermOver = errors.New("controllerruntime: the term is over")

// termCache is the process's cache for one term. It shows what earlier terms have written. Its
// Start starts nothing. When the term ends, its event handlers are removed.
type termCache struct {
	cache.Cache // warm
	warm        *warmCache
	over        <-chan struct{}
	wait        func(fresh.Cache) error // in the context of the term
	stop        func()                  // ends wait
	activity    activity

	mu       sync.Mutex
	catchUps map[*fresh.Cache]*catchUp // guarded by mu
	asked    map[kind]struct{}         // guarded by mu: the kinds that the term needs
	indexed  map[index]struct{}        // guarded by mu: by this term
	removals []func()                  // guarded by mu: of event handlers
}

func newTermCache(ctx context.Context, warm *warmCache) *termCache {
	waiting, stop := context.WithCancel(ctx)
	return &termCache{
		Cache: warm, warm: warm, over: ctx.Done(), stop: stop,
		wait:     func(c fresh.Cache) error { return fresh.Wait(waiting, c) },
		catchUps: map[*fresh.Cache]*catchUp{}, asked: map[kind]struct{}{}, indexed: map[index]struct{}{},
	}
}

// end returns when no event handler of the term runs, and none will run again.
func (t *termCache) end() {
	t.stop()
	t.activity.end()
	t.mu.Lock()
	removals := t.removals
	t.removals = nil
	t.mu.Unlock()
	for _, remove := range removals {
		remove()
	}
}

// catchUp is the wait until one informer shows what earlier terms have written.
type catchUp struct {
	done chan struct{}
	err  error // set before done is closed
}

func (c *catchUp) failed() bool {
	select {
	case <-c.done:
		return c.err != nil
	default:
		return false
	}
}

// catchUp begins to wait for an informer, unless that was done in this term.
func (t *termCache) catchUp(c *fresh.Cache) *catchUp {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.catchUps[c]; u != nil && !u.failed() {
		return u
	}
	u := &catchUp{done: make(chan struct{})}
	t.catchUps[c] = u
	if !t.activity.begin() {
		u.err = errTermOver
		close(u.done)
		return u
	}
	go func() {
		defer t.activity.done()
		defer close(u.done)
		u.err = t.wait(*c)
	}()
	return u
}

// anticipate begins to wait for the informers of these kinds before the term asks for them.
func (t *termCache) anticipate(objects []client.Object) {
	for _, o := range objects {
		if k, err := t.warm.kindOf(o); err == nil {
			for _, c := range t.warm.informersOf(k) {
				t.catchUp(c)
			}
		}
	}
}

// await returns when informers show what earlier terms have written.
func (t *termCache) await(ctx context.Context, informers []*fresh.Cache) error {
	catchUps := make([]*catchUp, 0, len(informers))
	for _, c := range informers {
		catchUps = append(catchUps, t.catchUp(c))
	}
	for _, u := range catchUps {
		select {
		case <-u.done:
			if u.err != nil {
				return u.err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// ask notes that the term needs a kind.
func (t *termCache) ask(k kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked[k] = struct{}{}
}

// read calls f, which reads from the informers of a kind and may make some, when they show what
// earlier terms have written.
func (t *termCache) read(ctx context.Context, k kind, f func() error) error {
	for {
		before := t.warm.informersOf(k)
		if err := t.await(ctx, before); err != nil {
			return err
		}
		err := f()
		switch now := t.warm.informersOf(k); {
		case !slices.Equal(before, now): // f has made one
		case err == nil && len(now) == 0:
			return fmt.Errorf("controllerruntime: the cache of %s: Options.NewCache ignores NewInformer of its options",
				k.GroupVersionKind)
		default:
			return err
		}
	}
}

// Get implements cache.Cache.
func (t *termCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	k, err := t.warm.kindOf(o)
	if err != nil {
		return err
	}
	t.ask(k)
	return t.read(ctx, k, func() error { return t.Cache.Get(ctx, key, o, opts...) })
}

// List implements cache.Cache.
func (t *termCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k, err := t.warm.kindOf(list)
	if err != nil {
		return err
	}
	t.ask(k)
	return t.read(ctx, k, func() error { return t.Cache.List(ctx, list, opts...) })
}

// GetInformer implements cache.Cache.
func (t *termCache) GetInformer(
	ctx context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	k, err := t.warm.kindOf(o)
	if err != nil {
		return nil, err
	}
	return t.informer(ctx, k, opts, func() (cache.Informer, error) { return t.Cache.GetInformer(ctx, o, opts...) })
}

// GetInformerForKind implements cache.Cache.
func (t *termCache) GetInformerForKind(
	ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	return t.informer(ctx, kind{GroupVersionKind: gvk}, opts, func() (cache.Informer, error) {
		return t.Cache.GetInformerForKind(ctx, gvk, opts...)
	})
}

// informer returns what get does, for this term. It waits unless the options say otherwise.
func (t *termCache) informer(
	ctx context.Context, k kind, opts []cache.InformerGetOption, get func() (cache.Informer, error),
) (cache.Informer, error) {
	t.ask(k)
	var o cache.InformerGetOptions
	for _, apply := range opts {
		apply(&o)
	}
	var i cache.Informer
	read := func() (err error) {
		i, err = get()
		return err
	}
	var err error
	if o.BlockUntilSynced != nil && !*o.BlockUntilSynced {
		err = read()
	} else {
		err = t.read(ctx, k, read)
	}
	if err != nil {
		return nil, err
	}
	return &termInformer{Informer: i, term: t}, nil
}

// IndexField implements cache.Cache. An index of an earlier term also serves this one.
func (t *termCache) IndexField(ctx context.Context, o client.Object, field string, f client.IndexerFunc) error {
	k, err := t.warm.kindOf(o)
	if err != nil {
		return err
	}
	t.ask(k)
	i := index{k, field}
	t.mu.Lock()
	_, again := t.indexed[i]
	t.indexed[i] = struct{}{}
	t.mu.Unlock()
	if !again && t.warm.isIndexed(i) {
		return nil
	}
	return t.Cache.IndexField(ctx, o, field, f)
}

// Start implements cache.Cache. The cache of the process has been started.
func (t *termCache) Start(ctx context.Context) error {
	<-ctx.Done()
	t.end()
	return nil
}

// WaitForCacheSync implements cache.Cache. It waits only for the kinds that this term has asked
// for, because those of an earlier term may be served no more. What cannot be waited for is an
// error when it is asked for. A manager whose cache reports false never ends.
func (t *termCache) WaitForCacheSync(ctx context.Context) bool {
	t.mu.Lock()
	asked := make([]kind, 0, len(t.asked))
	for k := range t.asked {
		asked = append(asked, k)
	}
	t.mu.Unlock()
	for _, k := range asked {
		_ = t.await(ctx, t.warm.informersOf(k))
	}
	select {
	case <-t.over:
		return true
	default:
		return ctx.Err() == nil
	}
}
