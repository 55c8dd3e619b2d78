package endpoints_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

// network carries connections to an API server that speaks TLS.
type network struct {
	listener

	mu    sync.Mutex
	links []*link
}

// listener accepts what is sent to the channel.
type listener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection.
func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case n.accepted <- far:
	case <-n.closed:
		return nil, net.ErrClosed
	}
	l := &link{Conn: near}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = append(n.links, l)
	return l, nil
}

// forget is what a load balancer does to all connections that there are. New ones work.
func (n *network) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.forget()
	}
}

// left returns how many connections the client has not closed.
func (n *network) left() (left int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		if !l.closed.Load() {
			left++
		}
	}
	return left
}

// opened returns how many connections were opened.
func (n *network) opened() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.links)
}

// link is the client's end of a connection. The kernel accepts what is written after the load balancer
// has forgotten it.
type link struct {
	net.Conn

	closed atomic.Bool
	mu     sync.Mutex
	dead   bool
}

func (l *link) Close() error {
	l.closed.Store(true)
	return l.Conn.Close()
}

func (l *link) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

func (l *link) forgotten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

func (l *link) Write(b []byte) (int, error) {
	if l.forgotten() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

func (l *link) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if err != nil || !l.forgotten() {
			return n, err
		}
	}
}

// serveTLS serves an API over such a network, and returns the configuration of its clients. It is that of
// client-go by default, without the Proxy of the environment.
func serveTLS(t testing.TB, handler http.Handler) (*network, *rest.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	n := &network{listener: listener{accepted: make(chan net.Conn), closed: make(chan struct{})}}
	s := &http.Server{
		Handler: handler,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		},
	}
	served := make(chan error)
	go func() { served <- s.ServeTLS(n, "", "") }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return n, &rest.Config{
		Host: "https://api.invalid", Dial: n.dial, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	}
}

// completeAfter returns how long after a time the first round was complete.
func (i *instance) completeAfter(begin time.Time) time.Duration {
	told := i.told()
	for n, round := range told.rounds {
		if round.Err == nil && told.ended[n].After(begin) {
			return told.ended[n].Sub(begin)
		}
	}
	return time.Since(begin)
}

// overTLS connects an instance over a network of its own, by a client that the test shares with it.
func (c *cluster) overTLS(address, protocol string, handler http.Handler, change func(*endpoints.Config),
) (*network, kubernetes.Interface, *instance) {
	c.Helper()
	n, connection := serveTLS(c, handler)
	connection.NextProtos = []string{protocol}
	client := kubernetes.NewForConfigOrDie(connection)
	c.Cleanup(client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections)
	i := newInstance(c, address, change)
	var err error
	i.Reconciler, err = endpoints.New(client, i.config)
	require.NoError(c, err)
	return n, client, i
}

// A load balancer forgets all connections of an instance. By client-go's health check they are closed 45 s
// later.
func TestForgottenConnectionIsLeft(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		for name, use := range map[string]func(c *cluster, client kubernetes.Interface){
			"alone": func(*cluster, kubernetes.Interface) {},
			"with a watch": func(c *cluster, client kubernetes.Interface) {
				w, err := client.CoreV1().ConfigMaps("other").Watch(c.Context(), metav1.ListOptions{})
				require.NoError(c, err)
				c.Cleanup(w.Stop)
			},
			"with idle connections": func(c *cluster, client kubernetes.Interface) {
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						_, err := client.CoreV1().ConfigMaps("other").List(c.Context(), metav1.ListOptions{})
						assert.NoError(c, err)
					})
				}
				all.Wait()
			},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				inBoth(t, func(c *cluster) {
					change := func(config *endpoints.Config) { config.ExpireAfter = 30 * time.Second }
					other := newInstance(c, "10.0.0.2", change).start(c)
					n, client, i := c.overTLS("10.0.0.1", protocol, c.server.Handler(), change)
					i.start(c)
					use(c, client)
					for range 3 {
						time.Sleep(3*interval - time.Second)
						n.forget()
						forgotten := time.Now()
						time.Sleep(expiry)
						assert.Empty(c, other.told().expired)
						assert.Less(c, i.completeAfter(forgotten), 2*interval-5*time.Second)
					}
					n.forget()
					require.NoError(c, i.stop(), "the withdrawal leaves it too")
					c.requirePublished("10.0.0.2")
					require.NoError(c, other.stop())
				})
			})
		}
	}
}

// An answer that takes long is no reason to break what others do on the connection.
func TestSlowAnswerBreaksNoWatch(t *testing.T) {
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		var slow atomic.Bool
		api := c.server.Handler()
		n, client, i := c.overTLS("10.0.0.1", "h2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if slow.Load() && strings.Contains(r.URL.Path, "/services/") {
				time.Sleep(interval)
			}
			api.ServeHTTP(w, r)
		}), nil)
		w, err := client.CoreV1().ConfigMaps("other").Watch(c.Context(), metav1.ListOptions{})
		require.NoError(c, err)
		i.start(c)
		assert.Equal(c, 1, n.opened())
		slow.Store(true)
		time.Sleep(2 * interval)
		slow.Store(false)
		time.Sleep(interval)
		assert.Greater(c, n.opened(), 1)
		_, err = c.client.CoreV1().ConfigMaps("other").Create(c.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		require.NoError(c, err)
		event, open := <-w.ResultChan()
		require.True(c, open)
		assert.Equal(c, watch.Added, event.Type)
		w.Stop()
		require.NoError(c, i.stop())
	})
}

// While nothing answers, an instance opens no more connections than it sends requests, and closes them.
func TestConnectionsThatAreLeftAreClosed(t *testing.T) {
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		n, _, i := c.overTLS("10.0.0.1", "h2", c.server.Handler(), nil)
		i.start(c)
		for range 20 {
			time.Sleep(interval)
			n.forget()
		}
		time.Sleep(2 * interval)
		assert.Equal(c, 1, n.left())
		require.NoError(c, i.stop())
	})
}

func TestClientConfigHasItsOwnConnection(t *testing.T) {
	inCluster(t, endpoints.ConfigMapStore{}, func(c *cluster) {
		protocols := map[string]string{}
		api := c.server.Handler()
		n, connection := serveTLS(c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protocols[r.UserAgent()] = r.Proto
			api.ServeHTTP(w, r)
		}))
		connection.Timeout, connection.QPS, connection.Burst = time.Minute, 1, 10
		own := endpoints.ClientConfig(connection)
		assert.Zero(c, own.Timeout)
		assert.InDelta(c, 1, connection.QPS, 0, "the caller's config is not changed")
		connection.UserAgent, own.UserAgent = "shared", "own"
		core, logs := observer.New(zapcore.WarnLevel)
		for _, config := range []*rest.Config{connection, own} {
			client := kubernetes.NewForConfigOrDie(config)
			i := validConfig()
			i.Logger = zap.New(core)
			r, err := endpoints.New(client, i)
			require.NoError(c, err)
			require.NoError(c, r.ReconcileOnce(c.Context()))
			client.CoreV1().RESTClient().(*rest.RESTClient).Client.CloseIdleConnections()
		}
		assert.Equal(c, map[string]string{"shared": "HTTP/2.0", "own": "HTTP/1.1"}, protocols)
		assert.Equal(c, 2, n.opened())
		said := logs.FilterMessageSnippet("the client of the instance has a rate limit").All()
		require.Len(c, said, 1)
		assert.EqualValues(c, 1, said[0].ContextMap()["qps"])
	})
}
