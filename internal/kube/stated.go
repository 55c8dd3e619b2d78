package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Stated reports whether err is a Status that an API server has written.
//
// client-go makes an error of the same type of any other answer, such as a proxy's page, and
// guesses the reason from the code: Forbidden from 403, Conflict or AlreadyExists from 409. Such an
// error proves only that the request has failed.
func Stated(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
