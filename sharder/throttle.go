package sharder

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// throttle finds out whether the client holds requests back on this side: a rate limit that client-go sets by default, at 5 requests
// per second, would have a sharder work for hours in silence. Clients do not show their limits, but when a request reaches the
// transport.
type throttle struct {
	hook func(time.Duration)
	log  *zap.Logger
	said atomic.Bool
}

// noticeable is what a request may wait for other reasons.
const noticeable = 200 * time.Millisecond

// watch returns the context for a request that is about to be handed to the client.
func (t *throttle) watch(ctx context.Context) context.Context {
	began := time.Now()
	var sent atomic.Bool // there may be several attempts
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
		t.log.Warn("the client holds the sharder's requests back: raise QPS and Burst of its rest.Config, or set QPS to -1", zap.Duration("wait", wait))
	}
}

// slowLimit is a rate of requests, per second, below which a client is surely not meant for a sharder.
const slowLimit = 50

// warnOfLimit says so if the client for Leases, which is likely to be made from the same configuration, has a low rate limit.
func (s *Sharder) warnOfLimit() {
	limiter := s.kube.CoreV1().RESTClient().GetRateLimiter()
	if limiter == nil {
		return
	}
	if qps := limiter.QPS(); qps > 0 && qps < slowLimit {
		s.config.Logger.Warn("the client is limited to few requests per second: each object takes at least one; raise QPS and Burst of its rest.Config, or set QPS to -1", zap.Float32("qps", qps))
	}
}
