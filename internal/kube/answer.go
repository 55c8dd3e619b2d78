// Package kube interprets the responses of an API server.
package kube

import (
	"errors"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Stated reports whether err is a Status that an API server has written.
//
// client-go makes an error of the same type of any other answer, such as a proxy's page, and
// guesses the reason from the code: Forbidden from 403, Conflict or AlreadyExists from 409. Such an
// error proves only that the request has failed.
func Stated(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Forbidden reports whether err is the API server's statement that it forbids the request, because
// a role is missing (see [RoleMissing]) or admission does not accept the object. A proxy's page
// with 403 is no such statement (see [Stated]).
func Forbidden(err error) bool { return apierrors.IsForbidden(err) && Stated(err) }

// authorizer matches how an API server words the refusal of its authorizers, RBAC among them. It is
// the same for all of them, and for all API servers that are built of Kubernetes' library.
var authorizer = regexp.MustCompile(`User ".*" cannot \S+ (resource|path) "`)

// RoleMissing reports whether err is the API server's statement that the user may not send such a
// request.
//
// The HTTP code 403 alone does not show that. Admission also refuses with it, because of an
// exceeded quota, a namespace that is being deleted, a policy or a webhook. These look at the
// object and may accept the next one.
func RoleMissing(err error) bool {
	return Forbidden(err) && authorizer.MatchString(err.Error())
}

// Unauthorized reports whether err is the API server's statement that it does not accept the credentials of the
// request, such as a certificate that has expired. A proxy's page with 401 is no such statement (see [Stated]).
func Unauthorized(err error) bool { return apierrors.IsUnauthorized(err) && Stated(err) }

// AccessDenied reports whether err is the API server's statement that this user may not send such a
// request, or that it does not accept the credentials. Only a change of the configuration ends either.
func AccessDenied(err error) bool { return RoleMissing(err) || Unauthorized(err) }
