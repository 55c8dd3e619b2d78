package kube

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var errNotAnswered = errors.New("the answer is not an API server's")

// Named returns err. Without one, it returns an error if an answer is not an object of this name: any
// JSON that something between sends with the code 200 decodes as an object without a name.
func Named(answer metav1.Object, name string, err error) error {
	if err == nil && answer.GetName() != name {
		return fmt.Errorf("%w: it is an object with the name %q, not %q", errNotAnswered, answer.GetName(), name)
	}
	return err
}

// Versioned returns err. Without one, it returns an error if a list has no version: any JSON that
// something between sends with the code 200 decodes as an empty list without one. The lists of fake
// clients have versions.
func Versioned(list metav1.ListInterface, err error) error {
	if err == nil && list.GetResourceVersion() == "" {
		return fmt.Errorf("%w: it is a list without a version", errNotAnswered)
	}
	return err
}
