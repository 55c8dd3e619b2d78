package cluster

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// wire is the connection to an API server that answers each request after a time.
type wire struct {
	requests []time.Time // when they were sent
	latency  time.Duration
	answer   func(*http.Request) *http.Response
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.requests = append(w.requests, time.Now())
	trace := httptrace.ContextClientTrace(r.Context())
	tell := func(hook func()) {
		if hook != nil { // a request that needs no proof has none
			hook()
		}
	}
	tell(trace.WroteHeaders)
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(w.latency):
	}
	tell(trace.GotFirstResponseByte)
	return w.answer(r), nil
}

func respond(code int, header ...string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response {
		response := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}
		for i := 0; i < len(header); i += 2 {
			response.Header.Set(header[i], header[i+1])
		}
		return response
	}
}

func proved(context.Context) error { return nil }

func (w *wire) client(t *testing.T, config rest.Config) kubernetes.Interface {
	config.Host, config.Transport = "http://api.invalid", w
	client, err := kubernetes.NewForConfig(&config)
	require.NoError(t, err)
	return client
}

func deletePod(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.CoreV1().Pods("default").Delete(ctx, "pod", metav1.DeleteOptions{})
	}
}

func TestProofThatFails(t *testing.T) {
	t.Parallel()
	cause := errors.New("a feed reads on")
	err := act(t.Context(), func(context.Context) error { return cause }, func(context.Context) error {
		assert.Fail(t, "it was done")
		return nil
	})
	assert.ErrorIs(t, err, ErrNotProved)
	assert.ErrorIs(t, err, cause)
}

// What reads the proof may ask the API server, whose answer is no refusal of what needed the proof.
func TestRefusedProofIsNoRefusal(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node", errors.New("no"))
	assert.True(t, isRefusal(forbidden))
	assert.False(t, isRefusal(act(t.Context(), func(context.Context) error { return forbidden }, nil)))
}

func TestRequestThatComesTooLateForItsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: respond(http.StatusOK)}
		client := w.client(t, rest.Config{QPS: 0.1, Burst: 1})
		start := time.Now()
		require.NoError(t, act(t.Context(), proved, deletePod(client)))
		err := act(t.Context(), proved, deletePod(client))
		assert.ErrorIs(t, err, errStale)
		assert.False(t, isRefusal(err))
		assert.Equal(t, []time.Time{start}, w.requests)
		assert.Equal(t, proofLasts, time.Since(start))
	})
}

// A request that has begun may take longer.
func TestSlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: respond(http.StatusOK), latency: 5 * time.Second}
		require.NoError(t, act(t.Context(), proved, deletePod(w.client(t, rest.Config{}))))
	})
}

func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: respond(http.StatusOK), latency: time.Hour}
		start := time.Now()
		err := act(t.Context(), proved, deletePod(w.client(t, rest.Config{})))
		assert.ErrorIs(t, err, errNoReply)
		assert.Equal(t, requestTimeout, time.Since(start))
		assert.ErrorIs(t, ask(t.Context(), deletePod(w.client(t, rest.Config{}))), errNoReply)
	})
}

// client-go repeats by itself, in its own time, what a server refuses with the header Retry-After.
func TestServerThatSaysLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: respond(http.StatusTooManyRequests, "Retry-After", "1"), latency: 2 * time.Second}
		err := act(t.Context(), proved, deletePod(w.client(t, rest.Config{})))
		assert.ErrorIs(t, err, errLater)
		assert.Len(t, w.requests, 1)
	})
}

func TestServerThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{answer: respond(http.StatusTooManyRequests)}
		err := act(t.Context(), proved, deletePod(w.client(t, rest.Config{})))
		assert.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	})
}

// A budget that the control plane has not looked at yet is answered so. It is refused for now, and
// no time is lost.
func TestEvictionThatIsTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		evictions := 0
		w := &wire{answer: func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost {
				evictions++
				return respond(http.StatusTooManyRequests, "Retry-After", "10")(r)
			}
			response := respond(http.StatusOK, "Content-Type", "application/json")(r)
			response.Body = io.NopCloser(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","items":[
				{"metadata":{"namespace":"default","name":"a","uid":"a"},"spec":{"nodeName":"node"}},
				{"metadata":{"namespace":"default","name":"b","uid":"b"},"spec":{"nodeName":"node"}}]}`))
			return response
		}}
		node, err := New(w.client(t, rest.Config{}), Config{Name: "node", UID: "uid", Incident: 1})
		require.NoError(t, err)
		start := time.Now()
		progress, err := node.Evict(t.Context(), proved, Options{}, Progress{})
		require.NoError(t, err)
		assert.Equal(t, v1alpha1.Pods{Listed: 2, Refused: 1}, progress.Pods)
		assert.Equal(t, 1, evictions, "the other one is for the next step")
		assert.Equal(t, answerLasts, time.Since(start))
	})
}
