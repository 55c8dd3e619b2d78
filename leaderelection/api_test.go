package leaderelection_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/retry"
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// api is what several fake clientsets share. Unlike client-go's own, it refuses writes to a version
// that does not stand.
type api struct {
	mu       sync.Mutex
	tracker  clienttesting.ObjectTracker
	versions int
}

// client is a fake clientset on an api, with the faults of one replica's connection.
type client struct {
	*fake.Clientset
	api *api

	mu       sync.Mutex
	requests map[string]int                 // by verb
	refuse   func(verb string) error        // instead of serving the request
	lose     func(verb string) (lost error) // instead of the answer, after the request has been served
}

func newAPI() *api {
	return &api{tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())}
}

func (a *api) client() *client {
	c := &client{Clientset: &fake.Clientset{}, api: a, requests: map[string]int{}}
	c.AddReactor("*", "leases", c.react)
	c.AddWatchReactor("leases", func(action clienttesting.Action) (bool, watch.Interface, error) {
		if err := c.note("watch", &c.refuse); err != nil {
			return true, nil, err
		}
		w, err := a.tracker.Watch(leases, action.GetNamespace(), action.(clienttesting.WatchActionImpl).ListOptions)
		return true, w, err
	})
	return c
}

func (c *client) react(action clienttesting.Action) (bool, runtime.Object, error) {
	if err := c.note(action.GetVerb(), &c.refuse); err != nil {
		return true, nil, err
	}
	handled, obj, err := c.api.serve(action)
	if lost := c.fault(action.GetVerb(), &c.lose); lost != nil {
		return true, nil, lost
	}
	return handled, obj, err
}

func (a *api) serve(action clienttesting.Action) (bool, runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if write, ok := action.(interface{ GetObject() runtime.Object }); ok {
		l := write.GetObject().(*coordinationv1.Lease)
		old, err := a.tracker.Get(leases, l.Namespace, l.Name)
		a.versions++
		switch {
		case action.GetVerb() == "create" && err != nil:
			l.UID = types.UID(fmt.Sprint("uid-", a.versions))
		case action.GetVerb() == "update" &&
			(err != nil || old.(*coordinationv1.Lease).ResourceVersion != l.ResourceVersion ||
				old.(*coordinationv1.Lease).UID != l.UID):
			return true, nil, apierrors.NewConflict(leases.GroupResource(), l.Name, nil)
		}
		l.ResourceVersion = strconv.Itoa(a.versions)
	}
	return clienttesting.ObjectReaction(a.tracker)(action)
}

func (c *client) note(verb string, fault *func(string) error) error {
	c.mu.Lock()
	c.requests[verb]++
	c.mu.Unlock()
	return c.fault(verb, fault)
}

func (c *client) fault(verb string, fault *func(string) error) error {
	c.mu.Lock()
	f := *fault
	c.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(verb)
}

// set changes a fault.
func (c *client) set(fault *func(string) error, f func(verb string) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*fault = f
}

// counted returns the requests so far, and starts counting again.
func (c *client) counted() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.requests
	c.requests = map[string]int{}
	return n
}

// forbid refuses the verbs as RBAC does.
func forbid(verbs ...string) func(string) error {
	return func(verb string) error {
		for _, v := range verbs {
			if v == verb {
				return apierrors.NewForbidden(leases.GroupResource(), "l",
					fmt.Errorf(`User "u" cannot %s resource "leases"`, verb))
			}
		}
		return nil
	}
}

// down fails every request.
func down(string) error { return apierrors.NewServiceUnavailable("the API server is down") }

// lease reads the record behind the replicas' backs.
func (a *api) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	obj, err := a.tracker.Get(leases, "ns", "l")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*coordinationv1.Lease)
}

// edit changes the record as somebody with kubectl would.
func (a *api) edit(t *testing.T, change func(*coordinationv1.Lease)) {
	t.Helper()
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // a renewal may come between
		l := a.lease(t)
		change(l)
		_, err := a.client().CoordinationV1().Leases("ns").Update(t.Context(), l, metav1.UpdateOptions{})
		return err
	}))
}
