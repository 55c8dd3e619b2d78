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

// proxy is between the processes of a house and the API server. At times it answers itself, or not
// at all.
type proxy struct {
	mu     sync.Mutex
	answer oddAnswer
	silent bool   // it gives none
	about  string // the resource of the requests that it answers; empty: all
	watch  bool   // it answers only those for watches
	after  bool   // they have been forwarded before, so that a write is done
	until  time.Time
}

// breakDown makes the proxy answer oddly until the given time.
func (p *proxy) breakDown(r *rand.Rand, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer, p.silent = oddAnswers[r.IntN(len(oddAnswers))], r.IntN(4) == 0
	p.about = []string{"", "", "pods", "nodes", "configmaps", "leases", "selfsubjectreviews"}[r.IntN(7)]
	p.watch, p.after = r.IntN(4) == 0, r.IntN(3) == 0
	p.until = until
}

// meet returns how the proxy treats a request; ok is false if it passes the request on.
func (p *proxy) meet(r *http.Request) (answer oddAnswer, silent, after, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	watch := r.URL.Query().Get("watch") != ""
	ok = p.broken() && strings.Contains(r.URL.Path, "/"+p.about) && (watch || !p.watch)
	return p.answer, p.silent, p.after, ok
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
		return filter{next, p.roundTrip}
	})
	return config
}

// roundTrip sends in any case. A process that is stopped or cut off gets no answer, and the trace
// of a schedule shows the request, so that the schedule can be run again.
func (p *proxy) roundTrip(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	odd, silent, after, ok := p.meet(r)
	if !ok {
		return nil, nil
	}
	if silent {
		<-r.Context().Done()
		return nil, r.Context().Err()
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

// oddly lets the proxies of one house break down, or all of them. Of the latter some are mended
// only at the end of all faults, and some time before the leader ends, so that all candidates are
// hindered when they could lead.
func (t *town) oddly(r *rand.Rand) {
	end := t.begun.Add(simDuration)
	until := time.Now().Add(time.Duration(r.ExpFloat64() * float64(20*time.Second)))
	all, long, leader := r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	if until.After(end) || all && long {
		until = end
	}
	if !all {
		t.house(byte('a'+r.IntN(t.w.Replicas()))).proxy.breakDown(r, until)
		return
	}
	for i := range t.w.Replicas() {
		t.house(byte('a'+i)).proxy.breakDown(r, until)
	}
	if leader {
		before := time.Duration(r.IntN(30)) * time.Second
		time.AfterFunc(max(0, time.Until(until)-before), func() {
			for _, p := range t.w.Working(lockName) {
				t.begin(t.house(p.Name[0]), "deleted", false, 0)
			}
		})
	}
}

// annotate keeps writing into the lock for a while.
func (t *town) annotate(r *rand.Rand) {
	every, until := time.Duration(1+
		r.IntN(3000))*time.Millisecond, time.Now().Add(time.Duration(r.IntN(50))*time.Second)
	if end := t.begun.Add(simDuration); until.After(end) {
		until = end
	}
	go func() {
		for ; time.Now().Before(until); time.Sleep(every) {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":%q}}}`, time.Now())
			_, _ = t.configMaps.Patch(context.Background(), lockName, types.MergePatchType, patch,
				metav1.PatchOptions{})
			_, _ = t.leases.Patch(context.Background(), lockName, types.MergePatchType, patch, metav1.PatchOptions{})
		}
	}()
}
