package leaderelection_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// between is what stands between a replica and its API server: it may answer instead.
type between struct {
	base http.RoundTripper

	mu     sync.Mutex
	answer func(*http.Request) *http.Response // nil, or returns nil: the server answers
}

func (b *between) set(answer func(*http.Request) *http.Response) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	answer := b.answer
	b.mu.Unlock()
	if answer != nil {
		if resp := answer(r); resp != nil {
			return resp, nil
		}
	}
	return b.base.RoundTrip(r)
}

// page is the answer of something that is no API server.
func page(r *http.Request, code int, contentType, text string) *http.Response {
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {contentType}},
		Body: io.NopCloser(strings.NewReader(text)), Request: r,
	}
}

// refusal is that of an API server.
func refusal(r *http.Request, err apierrors.APIStatus) *http.Response {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, _ := json.Marshal(status)
	return page(r, int(status.Code), "application/json", string(body))
}

// candidate is an elector behind something.
type candidate struct {
	*leaderelection.Elector
	*between
	server  *apisim.Server
	others  kubernetes.Interface
	started chan struct{}
	lost    chan error
	logs    *observer.ObservedLogs
	done    chan error
	cancel  context.CancelFunc
}

func newCandidate(t *testing.T, change func(*leaderelection.Config)) *candidate {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	c := &candidate{
		server: apisim.NewServer(), between: &between{}, started: make(chan struct{}, 10), lost: make(chan error, 10),
		logs: logs,
		done: make(chan error, 1),
	}
	c.others = clientset(t, c.server.Client("others"), nil)
	connection := c.server.Client("candidate")
	connection.PreferJSON()
	config := connection.Config()
	c.base, config.Transport = config.Transport, c.between
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	require.NoError(t, err)
	own := leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: "candidate", Logger: zap.New(core), OnLost: func(err error) {
			c.lost <- err
		},
	}
	if change != nil {
		change(&own)
	}
	c.Elector, err = leaderelection.New(client, own)
	require.NoError(t, err)
	return c
}

func (c *candidate) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c.cancel = cancel
	go func() {
		defer close(c.done)
		c.done <- c.Run(ctx, func(ctx context.Context) error {
			c.started <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	t.Cleanup(func() { c.stop(t) })
	synctest.Wait()
}

// stop ends the candidate, and waits until it has. It may be called again.
func (c *candidate) stop(t *testing.T) {
	t.Helper()
	c.cancel()
	assert.NoError(t, <-c.done)
}

// after returns whether the candidate begins to lead within d.
func (c *candidate) after(d time.Duration) (took time.Duration, leads bool) {
	begin := time.Now()
	select {
	case <-c.started:
		return time.Since(begin), true
	case <-time.After(d):
		return d, false
	}
}

func (c *candidate) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	l, err := c.others.CoordinationV1().Leases("ns").Get(t.Context(), "l", metav1.GetOptions{})
	require.NoError(t, err)
	return l
}

// odd are answers that say nothing about the Lease.
var odd = map[string]func(*http.Request) *http.Response{
	"404 page of a proxy": func(r *http.Request) *http.Response {
		return page(r, 404, "text/html", "<html>not here</html>")
	},
	"API not served": func(r *http.Request) *http.Response {
		return page(r, 404, "text/plain", "404 page not found\n")
	},
	"another object absent": func(r *http.Request) *http.Response {
		return refusal(r, apierrors.NewNotFound(leases.GroupResource(), "x"))
	},
	"502 page": func(r *http.Request) *http.Response {
		return page(r, 502, "text/html", "<html>oops</html>")
	},
	"an empty JSON object": func(r *http.Request) *http.Response { return page(r, 200, "application/json", `{}`) },
	"200 page": func(r *http.Request) *http.Response {
		return page(r, 200, "text/html", "<html>log in</html>")
	},
}

func TestOddAnswersDoNotEndATerm(t *testing.T) {
	for name, answer := range odd {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCandidate(t, nil)
				c.start(t)
				_, leads := c.after(time.Second)
				require.True(t, leads)
				c.set(answer)
				time.Sleep(2 * interval3)
				assert.True(t, c.IsLeader())
				c.set(nil)
				time.Sleep(time.Minute)
				assert.True(t, c.IsLeader(), "it renews again")
				assert.Empty(t, c.lost)
				assert.Zero(t, *c.lease(t).Spec.LeaseTransitions)
			})
		})
	}
}

func TestOddAnswersDoNotBeginATerm(t *testing.T) {
	for name, answer := range odd {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCandidate(t, nil)
				c.set(answer)
				c.start(t)
				time.Sleep(2 * duration)
				assert.False(t, c.IsLeader())
				c.set(nil)
				took, leads := c.after(time.Minute)
				require.True(t, leads)
				assert.LessOrEqual(t, took, interval3, "nothing had to be waited out")
			})
		})
	}
}

// TestThrottlingIsSaid lets an API server ask to be left alone.
func TestThrottlingIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.set(func(r *http.Request) *http.Response {
			resp := refusal(r, apierrors.NewTooManyRequests("slow down", 30))
			resp.Header.Set("Retry-After", "30")
			return resp
		})
		c.start(t)
		time.Sleep(time.Minute)
		said := c.logs.FilterMessage("request failed, retrying").All()
		require.Len(t, said, 2)
		for i, verb := range []string{"watch", "get"} {
			assert.Equal(t, verb+" Lease ns/l: the API server answered 429 Too Many Requests and asked to try again "+
				"later", said[i].ContextMap()["error"])
		}
		c.set(nil)
		_, leads := c.after(time.Minute)
		assert.True(t, leads)
	})
}

// TestAdmissionIsNoMissingRole has the Lease refused with the code of a missing role, for longer
// than a role may be missing.
func TestAdmissionIsNoMissingRole(t *testing.T) {
	for name, why := range map[string]string{
		"quota": "exceeded quota: q, requested: count/leases.coordination.k8s.io=1, used: " +
			"count/leases.coordination.k8s.io=0",
		"terminating": "unable to create new content in namespace ns because it is being terminated",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCandidate(t, nil)
				c.set(func(r *http.Request) *http.Response {
					if r.Method != http.MethodPost {
						return nil
					}
					return refusal(r, apierrors.NewForbidden(leases.GroupResource(), "l", errors.New(why)))
				})
				c.start(t)
				time.Sleep(10 * duration)
				assert.Empty(t, c.done, "Run goes on")
				require.Equal(t, 1, c.logs.FilterMessageSnippet("request failed").Len())
				said := fmt.Sprint(c.logs.FilterMessageSnippet("request failed").All()[0].ContextMap()["error"])
				assert.Contains(t, said, why)
				assert.NotContains(t, said, "grant")
				c.set(nil)
				_, leads := c.after(interval3)
				assert.True(t, leads)
			})
		})
	}
}

// refuseWatches refuses them as RBAC does.
func refuseWatches(r *http.Request) *http.Response {
	if r.URL.Query().Get("watch") == "" {
		return nil
	}
	return refusal(r,
		apierrors.NewForbidden(leases.GroupResource(), "l", errors.New(`User "u" cannot watch resource "leases"`)))
}

// altering changes the Leases that are stored.
func (c *candidate) altering(change func(*coordinationv1.Lease)) {
	c.set(func(r *http.Request) *http.Response {
		if r.Method != http.MethodPost && r.Method != http.MethodPut {
			return nil
		}
		var l coordinationv1.Lease
		if json.NewDecoder(r.Body).Decode(&l) != nil {
			return page(r, 500, "text/plain", "not a Lease")
		}
		change(&l)
		body, _ := json.Marshal(l)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil
	})
}

func TestTimesThatAreCutToSecondsAreHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123456789 * time.Nanosecond)
		c := newCandidate(t, nil)
		c.altering(func(l *coordinationv1.Lease) {
			l.Spec.AcquireTime.Time, l.Spec.RenewTime.Time = l.Spec.AcquireTime.Truncate(time.Second),
				l.Spec.RenewTime.Truncate(time.Second)
		})
		c.start(t)
		_, leads := c.after(time.Second)
		require.True(t, leads)
		time.Sleep(10 * time.Minute)
		assert.True(t, c.IsLeader())
		assert.Empty(t, c.lost)
		assert.Zero(t, c.logs.FilterLevelExact(zap.WarnLevel).Len())
	})
}

func TestWhatIsStoredOtherwiseIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCandidate(t, nil)
		c.altering(func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = 5 })
		c.start(t)
		_, leads := c.after(10 * time.Minute)
		require.False(t, leads, "for 15 s, while others wait for 5")
		failures := c.logs.FilterMessageSnippet("request failed")
		require.NotZero(t, failures.Len())
		assert.LessOrEqual(t, failures.Len(), 2, "once for each verb")
		assert.Contains(t, failures.All()[0].ContextMap()["error"], "spec.leaseDurationSeconds is 5 instead of 15")
		c.set(nil)
		_, leads = c.after(time.Minute)
		assert.True(t, leads)
	})
}

func TestInvalidUseIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	c := newCandidate(t, nil)
	require.EqualError(t, c.Run(t.Context(), nil), "leaderelection: Run: lead: must not be nil")
	list, err := c.others.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, list.Items)

	for qps, allowed := range map[float32]bool{0.5: false, 5: true} {
		core, logs := observer.New(zap.WarnLevel)
		slow, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api.invalid", QPS: qps, Burst: 1})
		require.NoError(t, err)
		_, err = leaderelection.New(slow, leaderelection.Config{Namespace: "ns", Name: "l", Logger: zap.New(core)})
		if !allowed {
			require.ErrorContains(t, err, "leaderelection: client: must be allowed at least two requests in each "+
				"renew interval of 3s")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 1, logs.FilterMessageSnippet("rate limit").Len())
	}
}
