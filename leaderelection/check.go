package leaderelection

import (
	"fmt"
	"net/http"
)

// Check is a health check with the signature of controller-runtime's healthz.Checker. It answers at once, sends no
// request, and ignores its argument.
//
// It returns an error from the end of a term that was lost, or whose deadline has passed unnoticed, until the lead
// function and OnLost have returned: what runs then does not lead any more, and a restart mends it. Otherwise it returns
// nil: to all candidates, whether or not they can reach the API server, and to a leader until its deadline, because it
// may yet renew, and ends by itself if it does not. So it serves as a liveness probe, by which no outage of the API
// server makes the kubelet kill candidates. It says nothing about the work ([Config].Healthy does), nor who leads.
//
// The probe has to be answered while this process is a candidate, too: by a server that does not wait for Run.
func (e *Elector) Check(*http.Request) error {
	e.mu.Lock()
	h := e.running
	e.mu.Unlock()
	if h == nil {
		return nil
	}
	if err := h.Overstay(); err != nil {
		return fmt.Errorf("leaderelection: %w", err)
	}
	return nil
}
