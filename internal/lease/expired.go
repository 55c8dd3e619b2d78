package lease

import "fmt"

// Expired says that the term has ended, by a loss or by its deadline, other than in good standing: work that goes on does so without
// it. It is nil while the term is held, and when it is being released.
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
