package sharder

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// throttle finds out whether the client's own rate limit delays requests. With client-go's default
// of 5 requests per second, a sharder would work for hours without a sign. Clients do not show
// their limits, but the delay shows when a request reaches the transport.
type throttle struct {
	hook func(time.Duration)
	log  *zap.Logger
	said atomic.Bool
}

// noticeable is the least delay that is reported. Shorter ones have other causes.
const noticeable = 200 * time.Millisecond

// watch returns the context for a request. Call it just before the client.
func (t *throttle) watch(ctx context.Context) context.Context {
	began := time.Now()
	var sent atomic.Bool // the client may retry
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		if sent.Swap(true) {
			return
		}
		if wait := time.Since(began); wait >= noticeable {
			t.waited(wait)
		}
	}})
}

func (t *throttle) waited(wait time.Duration) {
	if t.hook != nil {
		t.hook(wait)
	}
	if !t.said.Swap(true) {
		t.log.Warn("the client holds the sharder's requests back: raise QPS and Burst of its rest.Config, or set QPS "+
			"to -1", zap.Duration("wait", wait))
	}
}

// slowLimit is a rate of requests per second that is too low for a sharder.
const slowLimit = 50

// warnOfLimit logs a warning if the client for Leases, likely made from the same configuration as
// the other, has a low rate limit.
func (s *Sharder) warnOfLimit() {
	limiter := s.kube.CoreV1().RESTClient().GetRateLimiter()
	if limiter == nil {
		return
	}
	if qps := limiter.QPS(); qps > 0 && qps < slowLimit {
		s.config.Logger.Warn("the client is limited to few requests per second: each object takes at least one; "+
			"raise QPS and Burst of its rest.Config, or set QPS to -1", zap.Float32("qps", qps))
	}
}

// requestTimeout bounds every request, and the opening of a watch, because the client need not have
// a timeout.
const requestTimeout = 30 * time.Second

// bounded sends one request.
func bounded[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

// opened opens a watch. Stop releases its resources.
func opened(ctx context.Context, open func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	return kube.Watch(ctx, clock.System(), requestTimeout, open)
}
