package kube

import (
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
