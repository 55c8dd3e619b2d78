package referee

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// Service is every version of a Service's slices that was seen.
type Service struct {
	mu      sync.Mutex
	slices  map[string]discoveryv1.EndpointSlice // guarded by mu: those that there are
	history [][]string                           // guarded by mu: what was published, after each change
}

// WatchService notes every change of the slices, also over restarts of the API server.
func WatchService(t testing.TB, client kubernetes.Interface, namespace, service string) *Service {
	t.Helper()
	s := &Service{slices: map[string]discoveryv1.EndpointSlice{}}
	selector := discoveryv1.LabelServiceName + "=" + service + "," + discoveryv1.LabelManagedBy + "=" +
		endpoints.ManagedBy
	source := cache.NewFilteredListWatchFromClient(client.DiscoveryV1().RESTClient(), "endpointslices", namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = selector })
	informer := cache.NewSharedInformer(source, &discoveryv1.EndpointSlice{}, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { s.note(o.(*discoveryv1.EndpointSlice), true) },
		UpdateFunc: func(_, o any) { s.note(o.(*discoveryv1.EndpointSlice), true) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			s.note(o.(*discoveryv1.EndpointSlice), false)
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	require.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
	return s
}

func (s *Service) note(slice *discoveryv1.EndpointSlice, exists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.slices, slice.Name)
	if exists {
		s.slices[slice.Name] = *slice
	}
	s.history = append(s.history, s.published())
}

// Now is what is published.
func (s *Service) Now() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published()
}

// published needs mu.
func (s *Service) published() []string {
	all := make([]discoveryv1.EndpointSlice, 0, len(s.slices))
	for _, slice := range s.slices {
		all = append(all, slice)
	}
	return Published(all...)
}

// Mark returns a function that returns what was published after each change since.
func (s *Service) Mark() func() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := len(s.history)
	return func() [][]string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return slices.Clone(s.history[from:])
	}
}

// Published is what slices publish, as address:port/name, sorted; an address alone for port 443.
func Published(all ...discoveryv1.EndpointSlice) []string {
	found := []string{}
	for _, s := range all {
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				text := e.Addresses[0]
				if *p.Port != 443 {
					text = fmt.Sprintf("%s/%s", netip.AddrPortFrom(netip.MustParseAddr(text), uint16(*p.Port)), *p.Name)
				}
				found = append(found, text)
			}
		}
	}
	slices.Sort(found)
	return found
}
