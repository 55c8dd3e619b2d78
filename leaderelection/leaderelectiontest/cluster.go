package leaderelectiontest

import (
	"errors"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// errSilent is why requests fail while the cluster is silent.
var errSilent = errors.New("leaderelectiontest: the API server does not answer")

// cluster is a fake that gives Leases versions, so that it refuses to write an outdated one. While
// it is silent, it answers no requests.
type cluster struct {
	client *fake.Clientset

	mu      sync.Mutex // held during a write
	version int        // guarded by mu: of the last write; the fake counts in the same way
	silent  bool       // guarded by mu
}

func newCluster() *cluster {
	c := &cluster{client: fake.NewSimpleClientset(), version: 1}
	c.client.PrependReactor("*", "leases", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.silent {
			return true, nil, errSilent
		}
		written, ok := action.(interface{ GetObject() runtime.Object })
		if !ok {
			return false, nil, nil
		}
		l, err := c.store(written.GetObject().(*coordinationv1.Lease)) //nolint:forcetypeassert // of resource leases
		return true, l, err
	})
	c.client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.silent, nil, errSilent
	})
	return c
}

// store creates or replaces a Lease. The caller holds mu.
func (c *cluster) store(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	tracker := c.client.Tracker()
	l = l.DeepCopy()
	present, err := tracker.Get(leases, l.Namespace, l.Name)
	switch {
	case err == nil && l.ResourceVersion == "":
		return nil, apierrors.NewAlreadyExists(leases.GroupResource(), l.Name)
	case err == nil && present.(*coordinationv1.Lease).ResourceVersion != l.ResourceVersion:
		return nil, apierrors.NewConflict(leases.GroupResource(), l.Name, errors.New("it was changed meanwhile"))
	}
	absent := err != nil
	version := strconv.Itoa(c.version + 1)
	l.ResourceVersion = version
	if absent {
		l.UID = uuid.NewUUID()
		err = tracker.Create(leases, l, l.Namespace)
	} else {
		err = tracker.Update(leases, l, l.Namespace)
	}
	if err != nil {
		return nil, err
	}
	c.version++
	return l, nil
}

// change writes what next makes of the present Lease, which is nil if it does not exist.
func (c *cluster) change(name types.NamespacedName, next func(*coordinationv1.Lease) *coordinationv1.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changeLocked(name, next)
}

// changeLocked is change for callers that hold mu.
func (c *cluster) changeLocked(name types.NamespacedName,
	next func(*coordinationv1.Lease) *coordinationv1.Lease,
) error {
	var present *coordinationv1.Lease
	if found, err := c.client.Tracker().Get(leases, name.Namespace, name.Name); err == nil {
		present = found.(*coordinationv1.Lease) //nolint:forcetypeassert // of resource leases
	}
	l := next(present)
	if l == nil {
		return nil
	}
	_, err := c.store(l)
	return err
}

// silence makes all requests fail until answer is called.
func (c *cluster) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}

// answer changes the Lease and then ends a silence.
func (c *cluster) answer(name types.NamespacedName, next func(*coordinationv1.Lease) *coordinationv1.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent {
		_ = c.changeLocked(name, next) // a fake refuses nothing but what is outdated
		c.silent = false
	}
}
