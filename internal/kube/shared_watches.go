package kube

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// SharedWatches has the watches that several users of one client share. Over HTTP/1.1 each watch
// takes a connection of its own, some 30 kB in this process and more in the API server.
//
// A shared watch ends for all users when the API server ends it. A user that does not read holds up no
// other, because only the latest version of its object is kept for it. Nil shares nothing.
type SharedWatches struct {
	mu      sync.Mutex
	clock   clock.Clock              // the first user's: readings of two clocks do not compare
	apart   map[string]int           // watches of single objects, by key
	streams map[string]*sharedWatch  // that can be joined, by key
	wasted  map[string]clock.Reading // when watching a key together was found to be no use
}

// sharing is a transport of a client whose users share watches.
type sharing struct {
	http.RoundTripper
	watches SharedWatches
}

var _ utilnet.RoundTripperWrapper = (*sharing)(nil)

// WrappedRoundTripper implements [utilnet.RoundTripperWrapper].
func (s *sharing) WrappedRoundTripper() http.RoundTripper { return s.RoundTripper }

// ShareWatches wraps the transport of a client.
func ShareWatches(base http.RoundTripper) http.RoundTripper { return &sharing{RoundTripper: base} }

// WatchesOf returns what the users of a client share, or nil if its transport is not one of
// [ShareWatches].
func WatchesOf(client rest.Interface) *SharedWatches {
	api, _ := client.(*rest.RESTClient)
	if api == nil || api.Client == nil {
		return nil
	}
	for t := api.Client.Transport; ; {
		switch w := t.(type) {
		case *sharing:
			return &w.watches
		case utilnet.RoundTripperWrapper:
			t = w.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

const (
	// maxApart is how many users of a client watch one object each before the next one watches all of
	// the namespace for itself and those after it.
	maxApart = 3

	// A shared watch ends when it has had more than maxWaste events of objects without a user and, beyond
	// that, more than wasteRatio for each event of an object that has one.
	maxWaste, wasteRatio = 1000, 4

	// wasteMemory is how long all users watch apart after that, or after a shared watch was refused.
	wasteMemory = time.Hour

	// endGap is between the ends of a shared watch for two of its users, so that they do not all
	// send requests at once. All of them together take at most endTime.
	endGap, endTime = 10 * time.Millisecond, time.Second
)

// Opening opens a watch, within a time that is bounded. Ending its context ends the watch.
type Opening func(context.Context) (watch.Interface, error)

// Watch returns a watch of the object with this name among those of key. The first users of a key
// have watches of their own, which apart opens. Later ones share one of all objects, which together
// opens, unless the role does not permit it or most of its events are about objects without a user.
// Read the object after that, because a shared watch that is open already begins with the next version.
func (s *SharedWatches) Watch(ctx context.Context, c clock.Clock, key, name string, apart, together Opening) (
	watch.Interface, error,
) {
	if s == nil {
		return apart(ctx)
	}
	if s.takeApart(c, key) {
		return s.watchApart(ctx, key, apart)
	}
	w, err := s.join(ctx, c, key, name, false, together)
	if !RoleMissing(err) {
		return w, err
	}
	s.mu.Lock()
	s.wasted[key] = s.clock.Now()
	s.mu.Unlock()
	return s.Watch(ctx, c, key, name, apart, together)
}

// takeApart counts one more watch of a single object, unless a shared one is to be used.
func (s *SharedWatches) takeApart(c clock.Clock, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(c)
	since, wasted := s.wasted[key]
	if s.apart[key] >= maxApart && (!wasted || s.clock.Now().SinceAtLeast(since) >= wasteMemory) {
		return false
	}
	s.apart[key]++
	return true
}

// begin makes the zero value usable.
func (s *SharedWatches) begin(c clock.Clock) {
	if s.clock == nil {
		s.clock, s.apart, s.wasted = c, map[string]int{}, map[string]clock.Reading{}
		s.streams = map[string]*sharedWatch{}
	}
}

// watchApart opens a watch that takeApart has counted.
func (s *SharedWatches) watchApart(ctx context.Context, key string, open Opening) (watch.Interface, error) {
	w, err := open(ctx)
	done := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.apart[key]--
	})
	if err != nil {
		done()
		return nil, err
	}
	return &stream{w, done}, nil
}

// Join returns a watch of the object with this name, which its users share from the first on, and which
// open opens. It begins with the present version. key is that of no other object.
func (s *SharedWatches) Join(ctx context.Context, c clock.Clock, key, name string, open Opening) (
	watch.Interface, error,
) {
	if s == nil {
		return open(ctx)
	}
	return s.join(ctx, c, key, name, true, open)
}

func (s *SharedWatches) join(ctx context.Context, c clock.Clock, key, name string, single bool, open Opening) (
	watch.Interface, error,
) {
	m := s.member(ctx, c, key, name, single, open)
	select {
	case <-m.of.opened:
		if m.of.err != nil {
			return nil, m.of.err
		}
		return m, nil
	case <-ctx.Done():
		m.Stop()
		return nil, ctx.Err()
	}
}

// member joins the shared watch of key, or begins one.
func (s *SharedWatches) member(ctx context.Context, c clock.Clock, key, name string, single bool,
	open Opening,
) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin(c)
	w := s.streams[key]
	if w == nil {
		w = &sharedWatch{
			all: s, key: key, single: single, opened: make(chan struct{}), heard: s.clock.Now(),
			members: map[string][]*member{},
		}
		s.streams[key] = w
		var all context.Context
		all, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
		go w.run(all, open)
	}
	m := &member{of: w, name: name, events: make(chan watch.Event, 1)}
	w.members[name] = append(w.members[name], m)
	if w.latest != nil {
		m.events <- *w.latest
	}
	return m
}

// sharedWatch is one watch with several users.
type sharedWatch struct {
	all    *SharedWatches
	key    string
	single bool // all members watch one object
	cancel context.CancelFunc
	opened chan struct{} // closed when it is open, or err is known
	err    error

	// Under the mutex of all.
	members map[string][]*member // by the name of their object
	latest  *watch.Event         // if single
	heard   clock.Reading        // when the last event came
	asked   int                  // events of objects that somebody watches
	unasked int                  // all others
}

// run passes events on until the watch ends or the last member has left.
func (w *sharedWatch) run(ctx context.Context, open Opening) {
	defer w.cancel()
	events, err := open(ctx)
	if w.err = err; err != nil {
		w.all.mu.Lock()
		w.leave() // or others would get this error, too
		w.all.mu.Unlock()
	}
	close(w.opened)
	if err == nil {
		defer context.AfterFunc(ctx, events.Stop)()
		for e := range events.ResultChan() {
			if !w.pass(e) {
				break
			}
		}
		events.Stop()
	}
	w.end(ctx)
}

// pass passes an event on, and reports whether the watch is to go on.
func (w *sharedWatch) pass(e watch.Event) bool {
	if e.Type == watch.Error {
		return false
	}
	object, err := meta.Accessor(e.Object)
	if err != nil {
		return false
	}
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	w.heard = w.all.clock.Now()
	if e.Type == watch.Bookmark {
		return true
	}
	name := object.GetName()
	if members := w.members[name]; len(members) > 0 {
		w.asked++
		if w.single {
			w.latest = &e
		}
		for _, m := range members {
			m.put(e)
		}
		return true
	}
	if w.unasked++; w.unasked > maxWaste+wasteRatio*w.asked {
		w.all.wasted[w.key] = w.heard
		return false
	}
	return true
}

// end ends the watch for all members.
func (w *sharedWatch) end(ctx context.Context) {
	w.all.mu.Lock()
	w.leave()
	var members []*member
	for _, of := range w.members {
		members = append(members, of...)
	}
	w.all.mu.Unlock()
	for i, m := range members {
		if i > 0 {
			clock.SleepBy(ctx, w.all.clock, min(endGap, endTime/time.Duration(len(members))))
		}
		close(m.events)
	}
}

// leave keeps others from joining. The caller holds the mutex of all.
func (w *sharedWatch) leave() {
	if w.all.streams[w.key] == w {
		delete(w.all.streams, w.key)
	}
}

// member is one user of a shared watch.
type member struct {
	of     *sharedWatch
	name   string
	events chan watch.Event // capacity 1: the latest
}

// put replaces the event that was not read yet.
func (m *member) put(e watch.Event) {
	select {
	case <-m.events:
	default:
	}
	m.events <- e
}

// ResultChan implements [watch.Interface].
func (m *member) ResultChan() <-chan watch.Event { return m.events }

// Stop implements [watch.Interface]. The last member's ends the shared watch.
func (m *member) Stop() {
	w := m.of
	w.all.mu.Lock()
	defer w.all.mu.Unlock()
	i := slices.Index(w.members[m.name], m)
	if i < 0 {
		return
	}
	w.members[m.name] = slices.Delete(w.members[m.name], i, i+1)
	if len(w.members[m.name]) == 0 {
		delete(w.members, m.name)
	}
	if len(w.members) == 0 {
		w.leave()
		w.cancel()
	}
}

// LeaveIfSilent keeps others from joining a shared watch that nothing has come from for this long, such as
// one whose connection a load balancer has forgotten. Call it when a watch turns out to be behind,
// and open another one. It does nothing to a watch that is not shared.
func LeaveIfSilent(w watch.Interface, silence time.Duration) {
	m, ok := w.(*member)
	if !ok {
		return
	}
	all := m.of.all
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.clock.Now().SinceAtLeast(m.of.heard) >= silence {
		m.of.leave()
	}
}
