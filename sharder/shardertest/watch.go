package shardertest

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// filteredWatch shows what show makes of the events of another watch. It is here because that of
// apimachinery may leave a goroutine behind.
type filteredWatch struct {
	from    watch.Interface
	events  chan watch.Event
	stopped chan struct{}
	stop    sync.Once
}

func newFilteredWatch(from watch.Interface, show func(watch.Event) (watch.Event, bool)) watch.Interface {
	w := &filteredWatch{from: from, events: make(chan watch.Event), stopped: make(chan struct{})}
	go func() {
		defer close(w.events)
		for e := range from.ResultChan() {
			e, shown := show(e)
			if !shown {
				continue
			}
			select {
			case w.events <- e:
			case <-w.stopped:
				return
			}
		}
	}()
	return w
}

// ResultChan implements watch.Interface.
func (w *filteredWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *filteredWatch) Stop() {
	w.stop.Do(func() {
		close(w.stopped)
		w.from.Stop()
	})
}
