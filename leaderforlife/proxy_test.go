package leaderforlife_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// proxy is between the processes of a house and the API server. At times it gives answers of its
// own.
type proxy struct {
	mu     sync.Mutex
	answer oddAnswer
	about  string // the resource of the requests that it answers; empty: all
	after  bool   // they have been forwarded before, so that a write is done
	until  time.Time
}

// breakDown has the proxy answer oddly until some time, but no longer than until the end of all
// faults.
func (p *proxy) breakDown(r *rand.Rand, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = oddAnswers[r.IntN(len(oddAnswers))]
	p.about = []string{"", "", "pods", "configmaps", "leases", "selfsubjectreviews"}[r.IntN(6)]
	p.after = r.IntN(3) == 0
	p.until = time.Now().Add(time.Duration(r.ExpFloat64() * float64(10*time.Second)))
	if p.until.After(end) {
		p.until = end
	}
}

// now returns how a request is answered at present; ok is false if by the API server.
func (p *proxy) now(r *http.Request) (answer oddAnswer, after, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.broken() || !strings.Contains(r.URL.Path, "/"+p.about) {
		return oddAnswer{}, false, false
	}
	return p.answer, p.after, true
}

// broken reports whether it answers oddly at present. The caller holds mu.
func (p *proxy) broken() bool { return time.Now().Before(p.until) }

func (p *proxy) isBroken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken()
}

// connect puts the proxy between a client and the API server.
func (p *proxy) connect(config *rest.Config) *rest.Config {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return filter{withReviews{next}, p.roundTrip}
	})
	return config
}

// roundTrip sends something in any case, so that a process that is stopped, or whose connection is
// cut, gets no answer; and so that the trace of a schedule shows the request, by which it can be
// run again.
func (p *proxy) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	odd, after, ok := p.now(r)
	if !ok {
		return nil, nil
	}
	sent := r
	if !after {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		sent = r.Clone(r.Context())
		sent.Method, sent.Body, sent.URL.Path, sent.URL.RawQuery = http.MethodGet, nil, "/proxy"+r.URL.Path, ""
	}
	response, err := next.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close()
	return odd.to(r), nil
}

// oddly lets the proxies of one house, or of all, break down.
func (t *town) oddly(r *rand.Rand) {
	only := r.IntN(2 * t.w.Replicas()) // none of them: all
	for i := range t.w.Replicas() {
		if only == i || only >= t.w.Replicas() {
			h := t.house(byte('a' + i))
			h.proxy.breakDown(r, t.begun.Add(simDuration))
		}
	}
}

// annotate is somebody who writes into the lock again and again, for a while.
func (t *town) annotate(r *rand.Rand) {
	every, until := time.Duration(1+r.IntN(3000))*time.Millisecond, time.Now().Add(time.Duration(r.IntN(60))*time.Second)
	if end := t.begun.Add(simDuration); until.After(end) {
		until = end
	}
	go func() {
		for ; time.Now().Before(until); time.Sleep(every) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":%q}}}`, time.Now())
			_, _ = t.configMaps.Patch(context.Background(), lockName, types.MergePatchType, patch, metav1.PatchOptions{})
			_, _ = t.leases.Patch(context.Background(), lockName, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}()
}
