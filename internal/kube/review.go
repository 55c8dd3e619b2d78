package kube

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
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

// Duration adds a problem if a duration that may be zero is negative, or so short that its unit was
// forgotten.
func (r *Review) Duration(field string, d time.Duration) {
	switch {
	case d < 0:
		r.Add(fmt.Errorf("%s: must not be negative (got %v)", field, d))
	case tooShort(d):
		r.Add(fmt.Errorf("%s: %s (got %v)", field, unitRule, d))
	}
}

const unitRule = "must be 0 or at least 1ms: a number without a unit is in nanoseconds"

// tooShort reports whether the unit of a duration was forgotten.
func tooShort(d time.Duration) bool { return 0 < d && d < time.Millisecond }

// Add adds errors of the form "field: rule (got value)".
func (r *Review) Add(errs ...error) {
	for _, err := range errs {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", r.Package, err))
	}
}

// Err joins all problems, or returns nil.
func (r *Review) Err() error { return errors.Join(r.errs...) }

// NamespaceProblems returns what is wrong with the name of a namespace. It is mostly empty because the
// Pod does not set the environment variable that it comes from.
func NamespaceProblems(namespace string) []string {
	if namespace == "" {
		return []string{"must be set: in a Pod, take it from the environment variable POD_NAMESPACE, and set that " +
			"in the manifest by valueFrom: {fieldRef: {fieldPath: metadata.namespace}}"}
	}
	return validation.IsDNS1123Label(namespace)
}
