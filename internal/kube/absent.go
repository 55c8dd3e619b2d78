// Package kube interprets the responses of an API server.
package kube

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Absent reports whether err is the API server's statement that the object of this name does not
// exist.
//
// The HTTP code 404 alone is no such statement. A proxy answers with it, and so does an API server
// that does not serve the resource: while it starts, while a custom resource definition is
// replaced, or when the path is wrong. client-go also makes a NotFound error of those answers, and
// fills in the resource and the name that were asked for. It adds the cause
// UnexpectedServerResponse, by which Absent tells them apart. Such an error says nothing about the
// object: retry.
func Absent(err error, resource schema.GroupResource, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !Stated(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && name != "" && details.Name == name &&
		details.Group == resource.Group && details.Kind == resource.Resource
}
