package endpoints

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// health is for how long rounds have failed.
type health struct {
	mu    sync.Mutex
	since clock.Reading // guarded by mu: when the first failed round since the last complete one ended
	err   error         // guarded by mu: of the last round
}

// observe notes how a round has ended.
func (h *health) observe(now clock.Reading, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.since = now
	}
	h.err = err
}

// Check is a health check with the signature of controller-runtime's healthz.Checker. It returns at once
// without sending a request, and ignores its argument.
//
// It returns an error if rounds have failed for [Config].MaxFailing, and nil if that is not set. A round
// that withdraws this instance because it is not ready does not fail by that.
func (r *Reconciler) Check(*http.Request) error {
	now, h := r.config.clock.Now(), &r.health
	h.mu.Lock()
	defer h.mu.Unlock()
	limit, lasted := r.config.MaxFailing, now.SinceAtLeast(h.since)
	if h.err == nil || limit == 0 || lasted < limit {
		return nil
	}
	return fmt.Errorf("endpoints: rounds have failed for %v: %w", lasted.Round(time.Second), h.err)
}
