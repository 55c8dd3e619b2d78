package leaderelection_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// crowd is many electors on one client, each with a Lease of its own.
type crowd struct {
	*apisim.Client
	*between
	watches atomic.Int32 // that were opened
	leads   chan int     // the elector whose work has begun
	stops   []func()     // for each elector
	running sync.WaitGroup
	forget  chan struct{} // close it, and the connections of the watches so far bring nothing any more
}

// newCrowd starts electors one after the other, so that they renew at different times. If refused is
// set, they may not watch all Leases, as with a role with resourceNames.
func newCrowd(t *testing.T, server *apisim.Server, name string, n int, refused bool) *crowd {
	t.Helper()
	c := &crowd{Client: server.Client(name), between: &between{}, leads: make(chan int, n), forget: make(chan struct{})}
	config := c.Config()
	c.base, config.Transport = config.Transport, c.between
	if c.set(c.counting(c.forget)); refused {
		c.set(c.refuseAll)
	}
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	require.NoError(t, err)
	for i := range n {
		e, err := leaderelection.New(client, leaderelection.Config{
			Namespace: "ns", Name: fmt.Sprint("l", i), Identity: name, Logger: zap.NewNop(), OnLost: func(error) {},
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		c.stops = append(c.stops, stop)
		c.running.Go(func() {
			assert.NoError(t, e.Run(ctx, func(ctx context.Context) error {
				c.leads <- i
				<-ctx.Done()
				return nil
			}))
		})
		time.Sleep(300 * time.Millisecond)
	}
	return c
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }

// counting counts watches, whose connections are forgotten when the channel is closed.
func (c *crowd) counting(forgotten <-chan struct{}) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if !isWatch(r) {
			return nil
		}
		resp, err := c.base.RoundTrip(r)
		if err != nil {
			return nil // it fails once more
		}
		c.watches.Add(1)
		resp.Body = &forgettable{resp.Body, forgotten, make(chan struct{}), sync.Once{}}
		return resp
	}
}

// forgettable is what comes by a connection that something between client and server may forget.
type forgettable struct {
	io.ReadCloser
	forgotten <-chan struct{}
	closed    chan struct{}
	once      sync.Once // closes closed
}

func (f *forgettable) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	select {
	case <-f.forgotten:
		<-f.closed
		return 0, io.ErrUnexpectedEOF
	default:
		return n, err
	}
}

func (f *forgettable) Close() error {
	f.once.Do(func() { close(f.closed) })
	return f.ReadCloser.Close()
}

func (c *crowd) refuseAll(r *http.Request) *http.Response {
	if isWatch(r) && !strings.Contains(r.URL.Query().Get("fieldSelector"), "metadata.name") {
		return refusal(r, apierrors.NewForbidden(leases.GroupResource(), "",
			errors.New(`User "u" cannot watch resource "leases"`)))
	}
	return c.counting(c.forget)(r)
}

func (c *crowd) stop() {
	for _, stop := range c.stops {
		stop()
	}
	c.running.Wait()
}

// Electors that share a client share a watch, too, and take over as fast as others do.
func TestElectorsOfAClientShareAWatch(t *testing.T) {
	const electors = 10
	for name, c := range map[string]struct {
		refuse  bool
		watches int32 // of the candidates
	}{
		"shared":                           {false, 4},
		"refused, so each one has its own": {true, electors},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apisim.NewServer()
				leaders := newCrowd(t, server, "leaders", electors, false)
				for range electors {
					<-leaders.leads
				}
				candidates := newCrowd(t, server, "candidates", electors, c.refuse)
				time.Sleep(time.Minute)
				assert.Equal(t, c.watches, candidates.watches.Load())
				for i, stop := range leaders.stops {
					stop()
					begin := time.Now()
					require.Equal(t, i, <-candidates.leads)
					assert.Zero(t, time.Since(begin))
				}
				time.Sleep(10 * time.Minute)
				if !c.refuse {
					assert.Less(t, candidates.watches.Load(), int32(3*electors), "with those of leaders")
				}
				leaders.stop()
				candidates.stop()
			})
		})
	}
}

// A connection that a load balancer has forgotten brings nothing, and does not end. An elector
// finds that out when a takeover fails, and opens a new watch, which the others join when they find out.
func TestASharedWatchThatIsSilentIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const electors = 10
		server := apisim.NewServer()
		leaders := newCrowd(t, server, "leaders", electors, false)
		for range electors {
			<-leaders.leads
		}
		candidates := newCrowd(t, server, "candidates", electors, false)
		time.Sleep(time.Minute)
		before := candidates.watches.Load()
		candidates.set(candidates.counting(nil))
		close(candidates.forget)
		time.Sleep(time.Minute)
		assert.Equal(t, before, candidates.watches.Load()-before, "as many as before")
		for i, stop := range leaders.stops {
			stop()
			begin := time.Now()
			require.Equal(t, i, <-candidates.leads)
			assert.Zero(t, time.Since(begin))
		}
		leaders.stop()
		candidates.stop()
	})
}
