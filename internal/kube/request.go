package kube

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// RequestError is a failed request. It embeds the right that the request needs, with the name of the
// object unless it is about several.
type RequestError struct {
	Right
	Object string // for messages, such as Lease ns/a. Default: composed from the right
	Err    error
}

// Error names the verb, the object, and the right to grant if that is missing.
func (e *RequestError) Error() string {
	object := e.Object
	if object == "" {
		object = e.Resource.Resource
		if e.Name != "" {
			object += " " + e.Name
		}
		if e.Namespace != "" {
			object += " in namespace " + e.Namespace
		}
	}
	switch {
	case RoleMissing(e.Err):
		return fmt.Sprintf("not allowed to %s %s: grant the verb %q %s: %v", e.Verb, object, e.Verb, e.place(), e.Err)
	case Unauthorized(e.Err):
		return fmt.Sprintf("%s %s: the API server does not accept the credentials of this process: %v",
			e.Verb, object, e.Err)
	case apierrors.IsForbidden(e.Err) && !Stated(e.Err):
		return fmt.Sprintf("%s %s: this 403 is not from the API server: %v", e.Verb, object, e.Err)
	case e.Verb != "create" && e.Name != "" && apierrors.IsNotFound(e.Err) && !e.Absent():
		return fmt.Sprintf("%s %s: this 404 does not prove that the object is gone "+
			"(it is a proxy's, or of an API server that does not serve %s): %v", e.Verb, object, e.Resource.Resource,
			e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Verb, object, e.Err)
}

// Unwrap returns the API error.
func (e *RequestError) Unwrap() error { return e.Err }

// Absent reports whether the API server states that the object does not exist.
func (e *RequestError) Absent() bool { return Absent(e.Err, e.Resource, e.Name) }

// RequestTimeout bounds a request of a client that need not have a timeout of its own.
const RequestTimeout = 30 * time.Second

// Bounded sends a request, which may take RequestTimeout.
func Bounded[T any](ctx context.Context, send func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return send(ctx)
}

// LevelOf returns the level of a line about a failed request. Missing rights that are logged
// already are not logged again for each object and each attempt.
func LevelOf(ctx context.Context, err error) zapcore.Level {
	if RoleOf(ctx).Refused(err) {
		return zap.DebugLevel
	}
	return zap.WarnLevel
}
