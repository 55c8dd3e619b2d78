package leaderelection

import (
	"fmt"
	"net/http"
)

// Check is a liveness check with the signature of controller-runtime's healthz.Checker. It returns
// at once without sending a request, and ignores its argument.
//
// It returns an error while the work of a finished term runs: from a loss, or from a deadline that
// the process has missed, until the lead function and OnLost have returned. A restart helps then. With
// [Config].MaxFailing, it also returns one while a candidate's requests have failed for that long.
// Otherwise it returns nil: for candidates even if they cannot reach the API server, and for a
// leader until its deadline. It checks neither the work ([Config].Healthy does) nor who leads.
//
// Serve the probe even while the process is a candidate: do not make its server wait for Run.
func (e *Elector) Check(*http.Request) error {
	if err := e.candidate.Check(); err != nil {
		return fmt.Errorf("leaderelection: %w", err)
	}
	return nil
}
