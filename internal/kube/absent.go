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
// that does not serve the resource because it is starting, a custom resource definition is being
// replaced, or the path is wrong. client-go makes a NotFound error of those answers too, and fills
// in the requested resource and name, but adds the cause UnexpectedServerResponse, by which Absent
// distinguishes them. Such an error proves nothing about the object: retry.
func Absent(err error, resource schema.GroupResource, name string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !Stated(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && name != "" && details.Name == name &&
		details.Group == resource.Group && details.Kind == resource.Resource
}
