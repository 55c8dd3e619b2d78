package lease

import "fmt"

// Expired returns an error if the term was lost or has reached its deadline: its work must have
// ended. It returns nil while the term is held, and during and after a release.
func (h *Holder) Expired() error {
	if h.Remaining() > 0 {
		return nil
	}
	switch loss, ended := h.Ended(); {
	case loss != nil:
		return fmt.Errorf("work goes on after the end of its term: %w", loss)
	case ended: // and is being released
		return nil
	}
	return fmt.Errorf("work goes on after the end of its term: lease %s: %w", h.lease, ErrDeadline)
}
