package kube

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var errNotAnswered = errors.New("the answer is not an API server's")

// Named returns err. If that is nil, it returns an error if an answer is not an object of this name,
// because any JSON that an intermediary sends with the code 200 decodes as an object without a name.
func Named(answer metav1.Object, name string, err error) error {
	if err == nil && answer.GetName() != name {
		return fmt.Errorf("%w: it is an object with the name %q, not %q", errNotAnswered, answer.GetName(), name)
	}
	return err
}

// Versioned returns err. If that is nil, it returns an error if a list has neither a version nor an
// item, because any JSON that an intermediary sends with the code 200 decodes as such a list. Those of
// fake clients have versions.
func Versioned(list runtime.Object, err error) error {
	if err != nil {
		return err
	}
	l, err := meta.ListAccessor(list)
	if err == nil && l.GetResourceVersion() == "" && meta.LenList(list) == 0 {
		err = fmt.Errorf("%w: it is a list without a version", errNotAnswered)
	}
	return err
}
