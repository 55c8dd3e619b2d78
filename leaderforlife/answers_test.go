package leaderforlife_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// oddAnswer is an answer that proves nothing about the requested object.
type oddAnswer struct {
	name              string
	code              int
	contentType, body string
	retryAfter        string
}

// oddAnswers come from proxies, and from API servers that do not serve a resource.
var oddAnswers = []oddAnswer{
	{name: "a proxy's 404 page", code: 404, contentType: "text/html", body: "<html>no such backend</html>"},
	{name: "404 of a resource that is not served", code: 404, contentType: "text/plain", body: "404 page not found\n"},
	{
		name: "404 about another object", code: 404, contentType: "application/json",
		body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,` +
			`"message":"pods \"other\" not found","details":{"kind":"pods","name":"other"}}`,
	},
	{
		name: "404 about nothing", code: 404, contentType: "application/json",
		body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`,
	},
	{name: "404 with an error in JSON", code: 404, contentType: "application/json", body: `{"error":"no such route"}`},
	{name: "404 without a body", code: 404},
	{name: "a proxy's 403 page", code: 403, contentType: "text/html", body: "<html>your session has ended</html>"},
	{name: "a proxy's 409 page", code: 409, contentType: "text/html", body: "<html>conflict</html>"},
	{name: "410", code: 410, contentType: "text/plain", body: "gone"},
	{name: "a proxy's 502 page", code: 502, contentType: "text/html", body: "<html>bad gateway</html>"},
	{
		name: "429", code: 429, contentType: "text/plain", retryAfter: "3",
		body: "Too many requests, please try again later.",
	},
	{name: "a login page", code: 200, contentType: "text/html", body: "<html>please log in</html>"},
	{name: "an empty object", code: 200, contentType: "application/json", body: `{}`},
	{
		name: "a success", code: 200, contentType: "application/json",
		body: `{"kind":"Status","apiVersion":"v1","status":"Success"}`,
	},
}

func (a oddAnswer) to(r *http.Request) *http.Response {
	header := http.Header{}
	for name, value := range map[string]string{"Content-Type": a.contentType, "Retry-After": a.retryAfter} {
		if value != "" {
			header.Set(name, value)
		}
	}
	return &http.Response{
		StatusCode: a.code, Status: fmt.Sprintf("%d %s", a.code, http.StatusText(a.code)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader([]byte(a.body))), Request: r,
	}
}

// review is the API server's answer to a SelfSubjectReview of credentials that are bound to a Pod,
// or with empty arguments to none.
func review(r *http.Request, pod, uid string) *http.Response {
	user := authenticationv1.UserInfo{Username: "system:serviceaccount:ns:default"}
	if pod != "" {
		user.Extra = map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name": {pod}, "authentication.kubernetes.io/pod-uid": {uid},
		}
	}
	return respond(r, http.StatusCreated, &authenticationv1.SelfSubjectReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"},
		Status:   authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
	})
}

// An odd answer to any read is an error: it is logged, and the read is retried. It proves nothing.
func TestOddAnswersProveNothing(t *testing.T) {
	for _, read := range []struct {
		what    string
		path    string // has this suffix
		method  string
		options []leader.Option
		// lacks the verbs to see whether a Pod leads: the candidate's own Pod has to be read.
		lacksLabels bool
	}{
		{what: "the lock", path: "/configmaps/l"},
		{what: "the lock, a Lease", path: "/leases/l", options: []leader.Option{leader.WithLease()}},
		{what: "its Pod", path: "/pods/b"},
		{what: "the leader's Pod", path: "/pods/a", lacksLabels: true},
		{what: "the leader's node", path: "/nodes/" + node, options: []leader.Option{leader.WithNodeCheck()}},
		{what: "the labelled Pods", path: "/pods"},
		{what: "its credentials", path: "/selfsubjectreviews", method: http.MethodPost},
	} {
		for _, odd := range oddAnswers {
			t.Run(read.what+"/"+odd.name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					require.NoError(t, createNode(t, w))
					lacking := func(p *replica) *replica {
						if read.lacksLabels {
							p.forbid("pods", "list", "patch")
						}
						return p
					}
					a := lacking(w.process(w.pod("a")))
					a.start(w, read.options...)
					time.Sleep(10 * time.Second)
					require.Equal(t, []string{"a"}, w.leaders())

					b := lacking(w.process(w.pod("b")))
					var mended atomic.Bool
					var asked, wrote atomic.Int32
					b.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
						watch := r.URL.Query().Get("watch") != ""
						switch {
						case mended.Load():
						case r.Method == cmp.Or(read.method, http.MethodGet) && !watch &&
							strings.HasSuffix(r.URL.Path, read.path):
							asked.Add(1)
							return odd.to(r), nil
						case r.Method != http.MethodGet && !isA(r, "selfsubjectreviews", "create"):
							wrote.Add(1)
						}
						return nil, nil
					})
					b.start(w, read.options...)
					time.Sleep(10 * time.Minute)
					require.Equal(t, []string{"a"}, w.leaders())
					require.Empty(t, b.result, "the candidate goes on")
					assert.Positive(t, asked.Load())
					assert.Zero(t, wrote.Load(), "nothing is written")
					said := b.logs.FilterMessage("request failed, retrying").All()
					require.Len(t, said, 1, "said once")
					if odd.code == http.StatusNotFound && read.path != "/pods" && read.method == "" {
						assert.Contains(t, said[0].ContextMap()["error"],
							"this 404 does not prove that the object is gone")
					}

					mended.Store(true)
					time.Sleep(20 * time.Second) // the longest pause, 15 s, and what an answer asks to wait
					require.Equal(t, []string{"a"}, w.leaders())
					assert.Equal(t, "a: its Pod runs", b.why())
					a.exit()
					w.deletePod("a")
					time.Sleep(6 * time.Second)
					assert.Equal(t, []string{"b"}, w.leaders())
				})
			})
		}
	}
}

// One odd answer, for example of a proxy that reloads, makes no second leader. It meets any request
// of a candidate that starts, or of one that reads because the lock has changed.
func TestOddAnswerDoesNotMakeTwoLeaders(t *testing.T) {
	for _, rights := range []string{"all rights", "without labels"} {
		for _, odd := range oddAnswers {
			for _, when := range []string{"at the beginning", "while it waits"} {
				for nth := range int32(6) {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", rights, odd.name, when, nth), func(t *testing.T) {
						inWorld(t, func(t *testing.T, w *world) {
							meetOddAnswer(t, w, odd, rights == "all rights", when == "while it waits", nth)
						})
					})
				}
			}
		}
	}
}

// meetOddAnswer answers one request of a candidate oddly. Without labels only the leader's Pod
// itself shows that it is alive.
func meetOddAnswer(t *testing.T, w *world, odd oddAnswer, labels, waiting bool, nth int32) {
	t.Helper()
	require.NoError(t, createNode(t, w))
	start := func(p *replica) {
		p.start(w, leader.WithNodeCheck())
		time.Sleep(30 * time.Second)
	}
	a, b := w.process(w.pod("a")), w.process(w.pod("b"))
	if !labels {
		a.forbid("pods", "list", "patch")
		b.forbid("pods", "list", "patch")
	}
	var armed atomic.Bool
	var requests atomic.Int32
	b.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		if armed.Load() && requests.Add(1) == nth+1 {
			return odd.to(r), nil
		}
		return nil, nil
	})
	start(a)
	require.Equal(t, []string{"a"}, w.leaders())
	armed.Store(!waiting)
	start(b)
	armed.Store(true)
	for range 2 { // rounds
		lock := w.lock()
		require.NotNil(t, lock, "the lock of a leader stays")
		metav1.SetMetaDataAnnotation(&lock.ObjectMeta, "at", time.Now().String())
		_, err := w.client.CoreV1().ConfigMaps("ns").Update(t.Context(), lock, metav1.UpdateOptions{})
		require.NoError(t, err)
		time.Sleep(time.Minute)
	}
	require.Equal(t, []string{"a"}, w.leaders())
	require.Empty(t, b.result, "the candidate goes on")
	require.Greater(t, requests.Load(), nth, "the answer was given")
	a.exit()
	w.deletePod("a")
	time.Sleep(30 * time.Second)
	assert.Equal(t, []string{"b"}, w.leaders())
}
