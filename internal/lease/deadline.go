package lease

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// Timing is the timing of a lease. A holder renews every RenewInterval. MissedRenewals renewals in
// a row may fail before it must stop, Margin before another process may take over.
type Timing struct {
	// Duration (D) is how long the record must stay unchanged before it may be taken over. Whole
	// seconds, as in the record.
	Duration time.Duration
	// Margin (M) is how long before the end of D the holder has stopped. It covers the difference
	// in rate of two machines' clocks.
	Margin time.Duration
	// MissedRenewals (n) is how many renewals in a row may fail without a loss.
	MissedRenewals int
}

// Defaults for the fields of Timing that are zero. The margin's default is a fifth of the duration.
const (
	DefaultDuration       = 15 * time.Second
	DefaultMissedRenewals = 3
	minRenewInterval      = time.Second
)

// minMargin is twice the 100 ms that hooks and the log may take at the deadline before the process
// ends: the kernel's timer fires after half a margin.
const minMargin = 200 * time.Millisecond

// WithDefaults returns t with defaults for its zero fields.
func (t Timing) WithDefaults() Timing {
	t.Duration = cmp.Or(t.Duration, DefaultDuration)
	t.Margin = cmp.Or(t.Margin, t.Duration/5)
	t.MissedRenewals = cmp.Or(t.MissedRenewals, DefaultMissedRenewals)
	return t
}

// LongestStepDown is how long before the deadline work may be asked to end at most, so that two
// renewals are tried before.
func (t Timing) LongestStepDown() time.Duration {
	return max(0, time.Duration(t.MissedRenewals-1)*t.RenewInterval())
}

// Validate returns one error for each broken rule, with the field of the public configs, the rule
// and the value.
func (t Timing) Validate() []error {
	var errs []error
	bad := func(field, rule string, got any) {
		errs = append(errs, fmt.Errorf("%s: %s (got %v)", field, rule, got))
	}
	switch {
	case t.Duration <= 0:
		bad("LeaseDuration", "must be positive", t.Duration)
	case t.Duration%time.Second != 0:
		bad("LeaseDuration", "must be whole seconds, as the record stores it", t.Duration)
	case t.Duration > math.MaxInt32*time.Second:
		bad("LeaseDuration", "must fit in 32 bits of seconds, as the record stores it", t.Duration)
	}
	switch {
	case t.Margin <= 0:
		bad("Margin", "must be positive", t.Margin)
	case t.Margin < minMargin:
		bad("Margin", fmt.Sprintf("must be at least %v, which a process may need to end", minMargin), t.Margin)
	case t.Margin >= t.Duration:
		bad("Margin", fmt.Sprintf("must be less than LeaseDuration %v", t.Duration), t.Margin)
	}
	if t.MissedRenewals < 1 {
		bad("MissedRenewals", "must be at least 1", t.MissedRenewals)
	}
	if len(errs) == 0 && t.RenewInterval() < minRenewInterval {
		bad("LeaseDuration", fmt.Sprintf(
			"must leave at least %v between renewals: (LeaseDuration - Margin %v) / (MissedRenewals %d + 1) is %v",
			minRenewInterval, t.Margin, t.MissedRenewals, t.RenewInterval()), t.Duration)
	}
	return errs
}

// RenewInterval (R) is (D - M) / (n + 1).
func (t Timing) RenewInterval() time.Duration {
	return (t.Duration - t.Margin) / time.Duration(t.MissedRenewals+1)
}

// Left returns how long a holder may still act after its last stored write was sent at s: until s +
// D - M. All time that may have passed counts.
func (t Timing) Left(sent, now clock.Reading) time.Duration {
	return t.Duration - t.Margin - now.SinceAtMost(sent)
}
