package shard

import (
	"context"
	"errors"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryDelay is the delay before a retry for an object that work may not begin on yet.
const retryDelay = time.Second

// WrapReconciler returns a function that reconciles through [Shard.Do]. It is for controllers whose
// queue does not hold objects, such as those of controller-runtime, which this package does not
// import:
//
//	Reconciler: reconcile.Func(shard.WrapReconciler(shard,
//		func(ctx context.Context, r reconcile.Request) (*corev1.ConfigMap, error) {
//			cm := &corev1.ConfigMap{}
//			return cm, mgr.GetClient().Get(ctx, r.NamespacedName, cm)
//		}, reconciler.Reconcile))
//
// get returns the object of a request from the shard's cache. If the object is not there, or is not
// this shard's, the function does nothing: the object was deleted or belongs to another shard now.
// So use finalizers to clean up after deleted objects. If work may not begin yet, the function asks
// for a retry after a second, if Result has a field RequeueAfter of type time.Duration, as
// controller-runtime's has. Otherwise it returns the [ErrNotYet], and the caller retries.
func WrapReconciler[Request, Result any, T Object](
	shard *Shard,
	get func(context.Context, Request) (T, error),
	reconcile func(context.Context, Request) (Result, error),
) func(context.Context, Request) (Result, error) {
	return func(ctx context.Context, request Request) (Result, error) {
		var result, nothing Result
		obj, err := get(ctx, request)
		switch {
		case apierrors.IsNotFound(err) &&
			!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse): // not the 404 page of a proxy
			return nothing, nil
		case err != nil:
			return nothing, err
		}
		called := false
		err = shard.Do(ctx, obj, func(ctx context.Context) error {
			called = true
			var err error
			result, err = reconcile(ctx, request)
			return err
		})
		switch {
		case called: // err comes from the work
			return result, err
		case errors.Is(err, ErrNotMine):
			return nothing, nil
		case errors.Is(err, ErrNotYet) && requeueAfter(&nothing, retryDelay):
			return nothing, nil
		}
		return nothing, err
	}
}

// requeueAfter sets the field RequeueAfter of a struct, if it has one.
func requeueAfter(result any, delay time.Duration) bool {
	v := reflect.ValueOf(result).Elem()
	if v.Kind() != reflect.Struct {
		return false
	}
	field := v.FieldByName("RequeueAfter")
	if !field.IsValid() || !field.CanSet() || field.Type() != reflect.TypeFor[time.Duration]() {
		return false
	}
	field.SetInt(int64(delay))
	return true
}
