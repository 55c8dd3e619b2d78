package controllerruntime

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// termInformer is an informer of the process whose event handlers end with a term.
type termInformer struct {
	cache.Informer
	term *termCache
}

// AddEventHandler implements cache.Informer.
func (i *termInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, i.Informer.AddEventHandler)
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (i *termInformer) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
		return i.Informer.AddEventHandlerWithResyncPeriod(h, resync)
	})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *termInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.add(h, func(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
		return i.Informer.AddEventHandlerWithOptions(h, o)
	})
}

func (i *termInformer) add(
	h toolscache.ResourceEventHandler,
	register func(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error),
) (toolscache.ResourceEventHandlerRegistration, error) {
	t := i.term
	if !t.activity.begin() {
		return nil, errTermOver
	}
	defer t.activity.done()
	r, err := register(&termHandler{h, &t.activity})
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.removals = append(t.removals, func() { _ = i.RemoveEventHandler(r) }) // it fails for handles of others only
	return r, nil
}

// termHandler is an event handler that gets no events after its term, although an informer may
// still have some for a handler that it has just removed.
type termHandler struct {
	inner    toolscache.ResourceEventHandler
	activity *activity
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h *termHandler) OnAdd(o any, initial bool) { h.call(func() { h.inner.OnAdd(o, initial) }) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (h *termHandler) OnUpdate(before, after any) { h.call(func() { h.inner.OnUpdate(before, after) }) }

// OnDelete implements toolscache.ResourceEventHandler.
func (h *termHandler) OnDelete(o any) { h.call(func() { h.inner.OnDelete(o) }) }

func (h *termHandler) call(handle func()) {
	if h.activity.begin() {
		defer h.activity.done()
		handle()
	}
}
