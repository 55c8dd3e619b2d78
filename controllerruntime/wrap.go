package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// The delay before retrying an object that work may not begin on yet grows between these. Most often a
// cache is only some milliseconds behind another one.
const (
	minRetryDelay = 10 * time.Millisecond
	maxRetryDelay = time.Second
)

// WrapReconciler returns a reconciler that calls inner through [shard.Shard.Do], and so only for
// objects of this shard while no other process works on them. T is the struct of the reconciled kind:
//
//	Complete(controllerruntime.WrapReconciler[corev1.ConfigMap](shard, mgr.GetClient(), reconciler))
//
// reader reads the object from the shard's cache, as the client of a manager does. If the object is
// missing or not this shard's, the reconciler does nothing, because the object was deleted or now
// belongs to another shard. So use finalizers to clean up after deleted objects. If work may not
// begin yet, the request is repeated soon, and at least every second.
func WrapReconciler[T any, P interface {
	*T
	client.Object
}](s *shard.Shard, reader client.Reader, inner reconcile.Reconciler) reconcile.Reconciler {
	switch any(P(new(T))).(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata:
		panic(fmt.Sprintf("controllerruntime: WrapReconciler[%T]: the kind of such objects is not known by their "+
			"type: use WrapTypedReconciler, and set the kind in get", *new(T)))
	}
	return WrapTypedReconciler(s, func(ctx context.Context, r reconcile.Request) (P, error) {
		obj := P(new(T))
		return obj, reader.Get(ctx, r.NamespacedName, obj)
	}, inner)
}

// WrapTypedReconciler is [WrapReconciler] for requests of any type. get returns the object of a
// request from the shard's cache.
func WrapTypedReconciler[Request comparable, T client.Object](
	s *shard.Shard, get func(context.Context, Request) (T, error), inner reconcile.TypedReconciler[Request],
) reconcile.TypedReconciler[Request] {
	waits := workqueue.NewTypedItemExponentialFailureRateLimiter[Request](minRetryDelay, maxRetryDelay)
	return reconcile.TypedFunc[Request](func(ctx context.Context, request Request) (reconcile.Result, error) {
		result, err := reconcileOwn(ctx, s, get, inner, request)
		if errors.Is(err, errNotYet) {
			return reconcile.Result{RequeueAfter: waits.When(request)}, nil
		}
		waits.Forget(request)
		return result, err
	})
}

// errNotYet means that work may not begin yet. Work itself does not return it.
var errNotYet = errors.New("work may not begin yet")

// reconcileOwn calls the reconciler if the object of the request is this shard's.
func reconcileOwn[Request comparable, T client.Object](
	ctx context.Context, s *shard.Shard, get func(context.Context, Request) (T, error),
	inner reconcile.TypedReconciler[Request], request Request,
) (result reconcile.Result, err error) {
	obj, err := get(ctx, request)
	switch {
	case apierrors.IsNotFound(err) &&
		!apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse): // not the 404 page of a proxy
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	called := false
	err = s.Do(ctx, obj, func(ctx context.Context) error {
		called = true
		var err error
		result, err = inner.Reconcile(ctx, request)
		return err
	})
	switch {
	case called: // err comes from the work
		return result, err
	case errors.Is(err, shard.ErrNotMine):
		return reconcile.Result{}, nil
	case errors.Is(err, shard.ErrNotYet):
		return reconcile.Result{}, errNotYet
	}
	return reconcile.Result{}, err
}
