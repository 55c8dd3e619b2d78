package endpoints

import (
	"fmt"
	"net/http"
)

// Check is a health check with the signature of controller-runtime's healthz.Checker. It returns at once
// without sending a request, and ignores its argument.
//
// It returns an error if rounds have failed for [Config].MaxFailing, and nil if that is not set. A round
// that withdraws this instance because it is not ready does not count as failed.
func (r *Reconciler) Check(*http.Request) error {
	if err := r.contact.Check("rounds", r.config.MaxFailing); err != nil {
		return fmt.Errorf("endpoints: %w", err)
	}
	return nil
}
