package lease

import (
	"errors"
	"fmt"
	"time"
)

// Review collects the rules that a package's config breaks.
type Review struct {
	Package string
	errs    []error
}

// Value notes the problems of a field with a text in it.
func (r *Review) Value(field, value string, problems []string) {
	for _, problem := range problems {
		r.Add(fmt.Errorf("%s: %s (got %q)", field, problem, value))
	}
}

// NotNegative notes a field with a duration below zero.
func (r *Review) NotNegative(field string, d time.Duration) {
	if d < 0 {
		r.Add(fmt.Errorf("%s: must not be negative (got %v)", field, d))
	}
}

// Add notes errors of the form "field: rule (got value)".
func (r *Review) Add(errs ...error) {
	for _, err := range errs {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.Package, err))
	}
}

// Err joins what was noted; nil if that is nothing.
func (r *Review) Err() error { return errors.Join(r.errs...) }
