package leaderelection_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// fullDuration is the LeaseDuration of everything that is compared: our default, and that of
// Kubernetes' own components.
const fullDuration = 15 * time.Second

// peer is an elector to compare.
type peer struct {
	name   string
	config func(*rest.Config) *rest.Config // for its client
	// run contends for the Lease and works while it leads, until the context has ended and the
	// elector with it.
	run func(context.Context, kubernetes.Interface, types.NamespacedName, func(context.Context)) error
}

var (
	clientGo = peer{"client-go", rest.CopyConfig, runClientGo}
	floor    = peer{"floor", leaderelection.LeaseConfig, runFloor}
	ours     = peer{"bellwether", leaderelection.LeaseConfig, runOurs}
)

func runOurs(
	ctx context.Context, client kubernetes.Interface, lease types.NamespacedName, work func(context.Context),
) error {
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: lease.Namespace, Name: lease.Name, LeaseDuration: fullDuration,
		OnLost: func(error) {}, // the process has other electors
	})
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error {
		work(ctx)
		return nil
	})
}

func runClientGo(
	ctx context.Context, client kubernetes.Interface, lease types.NamespacedName, work func(context.Context),
) error {
	elector, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: rand.Text()},
		},
		LeaseDuration: fullDuration, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks:       clientgo.LeaderCallbacks{OnStartedLeading: work, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return err
	}
	elector.Run(klog.NewContext(ctx, klog.Logger{})) // without logs, as ours is
	return nil
}

// runFloor is the least that a handover takes on this API server at this moment: one write, its way
// through a watch, and one write. It renews nothing and does not succeed a leader that crashes.
func runFloor(
	ctx context.Context, client kubernetes.Interface, lease types.NamespacedName, work func(context.Context),
) error {
	leases := client.CoordinationV1().Leases(lease.Namespace)
	held := coordinationv1.LeaseSpec{HolderIdentity: ptr.To(rand.Text())}
	meta := metav1.ObjectMeta{Name: lease.Name}
	l, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta, Spec: held}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var versions watch.Interface
		if versions, err = leases.Watch(ctx, metav1.SingleObject(meta)); err != nil {
			return err
		}
		defer versions.Stop()
		for free := false; !free; {
			event, ok := <-versions.ResultChan()
			if !ok || event.Type == watch.Error {
				return errors.New("the watch ended")
			}
			l = event.Object.(*coordinationv1.Lease)
			free = l.Spec.HolderIdentity == nil
		}
		l.Spec = held
		l, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	work(ctx)
	l.Spec = coordinationv1.LeaseSpec{}
	_, err = leases.Update(context.WithoutCancel(ctx), l, metav1.UpdateOptions{})
	return err
}

// link is one process's network: what passes is counted, and cut ends it as the end of the process
// would.
type link struct {
	requests atomic.Int64 // a watch is one
	bytes    atomic.Int64 // in both directions, encrypted

	mu          sync.Mutex
	down        bool
	connections []net.Conn
}

func newLink(b *testing.B) *link {
	l := &link{}
	b.Cleanup(l.cut) // or idle connections would be there when the next benchmark counts
	return l
}

// client returns a client for a peer that has connections of its own.
func (l *link) client(b *testing.B, p peer) kubernetes.Interface {
	b.Helper()
	config := p.config(shared.Admin())
	config.Dial = l.dial
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return counted{base, &l.requests}
	})
	client, err := kubernetes.NewForConfig(config)
	require.NoError(b, err)
	return client
}

func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = conn.Close()
		return nil, errors.New("the link is cut")
	}
	l.connections = append(l.connections, conn)
	return &countedConn{conn, &l.bytes}, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, conn := range l.connections {
		_ = conn.Close()
	}
}

type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// counted counts requests.
type counted struct {
	base     http.RoundTripper
	requests *atomic.Int64
}

func (c counted) WrappedRoundTripper() http.RoundTripper { return c.base }

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	return c.base.RoundTrip(r)
}
