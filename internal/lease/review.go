package lease

import (
	"errors"
	"fmt"
	"time"
)

// Review collects the rules that a config breaks.
type Review struct {
	Package string
	errs    []error
}

// Value adds the problems of a text field.
func (r *Review) Value(field, value string, problems []string) {
	for _, problem := range problems {
		r.Add(fmt.Errorf("%s: %s (got %q)", field, problem, value))
	}
}

// NotNegative adds a problem if a duration is negative.
func (r *Review) NotNegative(field string, d time.Duration) {
	if d < 0 {
		r.Add(fmt.Errorf("%s: must not be negative (got %v)", field, d))
	}
}

// Add adds errors of the form "field: rule (got value)".
func (r *Review) Add(errs ...error) {
	for _, err := range errs {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.Package, err))
	}
}

// Err joins all problems; nil if there are none.
func (r *Review) Err() error { return errors.Join(r.errs...) }
