package controllerruntime_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	x          = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: "x"}}
	result     = reconcile.Result{RequeueAfter: time.Hour}
)

// reader reads ConfigMaps from the cache of a shard.
type reader struct {
	client.Reader // its methods are not called
	store         cache.Store
	failure       error
}

func (r *reader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.failure != nil {
		return r.failure
	}
	o, exists, _ := r.store.GetByKey(key.String())
	if !exists {
		return apierrors.NewNotFound(configMaps.GroupResource(), key.Name)
	}
	o.(*corev1.ConfigMap).DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

// inReplica runs test as the work of a replica that is the only shard.
func inReplica(t *testing.T, test func(ctx context.Context, s *shard.Shard, r *reader, admin kubernetes.Interface)) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := kubernetes.NewForConfigOrDie(server.Client("admin").Config())
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
		r, err := replica.New(server.Client("a").Config(), replica.Config{
			Namespace: "default", Ring: "checksums", Identity: "a", Mapper: mapper,
			Resources: []api.Resource{{GVR: configMaps}},
			OnLost:    func(err error) { assert.NoError(t, err) },
		})
		require.NoError(t, err)
		configs := kubernetes.NewForConfigOrDie(r.ShardConfig).CoreV1()
		require.NoError(t, r.Run(t.Context(), func(ctx context.Context) error {
			ctx, end := context.WithCancel(ctx)
			informer := r.Shard.NewInformer(shard.ListerWatcher(configs.ConfigMaps(""), admin), &corev1.ConfigMap{}, 0,
				cache.Indexers{})
			ended := make(chan struct{})
			go func() {
				informer.RunWithContext(ctx)
				close(ended)
			}()
			assert.True(t, cache.WaitForCacheSync(ctx.Done(), informer.HasSynced))
			test(ctx, r.Shard, &reader{store: informer.GetStore()}, admin)
			end()
			<-ended
			return nil
		}, nil))
	})
}

// create makes the ConfigMap x and waits until it is with the only shard.
func create(ctx context.Context, t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	_, err := admin.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	assert.NoError(t, err)
	time.Sleep(time.Minute)
}

func TestAReconcilerIsCalledForObjectsOfItsShardOnly(t *testing.T) {
	inReplica(t, func(ctx context.Context, s *shard.Shard, r *reader, admin kubernetes.Interface) {
		calls := 0
		var failure error
		wrapped := controllerruntime.WrapReconciler[corev1.ConfigMap](s, r, reconcile.Func(
			func(_ context.Context, q reconcile.Request) (reconcile.Result, error) {
				calls++
				assert.Equal(t, x, q)
				return result, failure
			}))

		got, err := wrapped.Reconcile(ctx, x)
		assert.NoError(t, err)
		assert.Zero(t, got, "not there: deleted, or another shard's")

		create(ctx, t, admin)
		for _, failure = range []error{nil, errors.New("failure"), shard.ErrNotYet, shard.ErrNotMine} {
			got, err = wrapped.Reconcile(ctx, x)
			assert.Equal(t, failure, err, "errors of the work are returned unchanged")
			assert.Equal(t, result, got)
		}
		assert.Equal(t, 4, calls)

		// As after a user has edited the label: the object in the cache is not this shard's.
		o, _, _ := r.store.GetByKey("default/x")
		other := o.(*corev1.ConfigMap).DeepCopy()
		other.UID = "another"
		other.Annotations = nil
		_, err = controllerruntime.WrapTypedReconciler(s,
			func(context.Context, string) (*corev1.ConfigMap, error) { return other, nil },
			reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
				calls++
				return result, nil
			})).Reconcile(ctx, "x")
		assert.NoError(t, err)
		assert.Equal(t, 4, calls)

		broken := errors.New("broken")
		r.failure = broken
		_, err = wrapped.Reconcile(ctx, x)
		assert.Equal(t, broken, err)
	})
}

func TestARequestIsRepeatedIfWorkMayNotBeginYet(t *testing.T) {
	inReplica(t, func(ctx context.Context, s *shard.Shard, r *reader, admin kubernetes.Interface) {
		create(ctx, t, admin)
		o, _, _ := r.store.GetByKey("default/x")
		stale := o.(*corev1.ConfigMap).DeepCopy()
		changed := stale.DeepCopy()
		changed.Data = map[string]string{"a": "b"}
		_, err := admin.CoreV1().ConfigMaps("default").Update(ctx, changed, metav1.UpdateOptions{})
		assert.NoError(t, err)
		time.Sleep(time.Second)
		wrapped := controllerruntime.WrapTypedReconciler(s,
			func(context.Context, string) (*corev1.ConfigMap, error) { return stale, nil },
			reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
				assert.Fail(t, "called with a copy that is older than the cache")
				return result, nil
			}))
		for _, after := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000} { // milliseconds
			got, err := wrapped.Reconcile(ctx, "x")
			assert.NoError(t, err)
			assert.Equal(t, reconcile.Result{RequeueAfter: after * time.Millisecond}, got)
		}
	})
}

// The 404 of a proxy does not say that the object is gone.
func TestARequestIsNotDroppedForThePageOfAProxy(t *testing.T) {
	inReplica(t, func(ctx context.Context, s *shard.Shard, r *reader, _ kubernetes.Interface) {
		r.failure = apierrors.NewGenericServerResponse(http.StatusNotFound, "get", configMaps.GroupResource(), "x",
			"<html>", 0, true)
		_, err := controllerruntime.WrapReconciler[corev1.ConfigMap](s, r, reconcile.Func(
			func(context.Context, reconcile.Request) (reconcile.Result, error) { return result, nil },
		)).Reconcile(ctx, x)
		assert.Equal(t, r.failure, err)
	})
}

// The kind of such objects has to be set before they are read.
func TestObjectsWithoutATypeNeedAKind(t *testing.T) {
	const remedy = "the kind of such objects is not known by their type: use WrapTypedReconciler, and set " +
		"the kind in get"
	assert.PanicsWithValue(t, "controllerruntime: WrapReconciler[unstructured.Unstructured]: "+remedy, func() {
		controllerruntime.WrapReconciler[unstructured.Unstructured](nil, nil, nil)
	})
	assert.PanicsWithValue(t, "controllerruntime: WrapReconciler[v1.PartialObjectMetadata]: "+remedy, func() {
		controllerruntime.WrapReconciler[metav1.PartialObjectMetadata](nil, nil, nil)
	})
	inReplica(t, func(ctx context.Context, s *shard.Shard, r *reader, admin kubernetes.Interface) {
		create(ctx, t, admin)
		time.Sleep(time.Minute)
		for _, obj := range []client.Object{&metav1.PartialObjectMetadata{}, &unstructured.Unstructured{}} {
			called := false
			wrapped := controllerruntime.WrapTypedReconciler(s,
				func(ctx context.Context, request reconcile.Request) (client.Object, error) {
					var stored corev1.ConfigMap
					if err := r.Get(ctx, request.NamespacedName, &stored); err != nil {
						return nil, err
					}
					content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&stored)
					if err != nil {
						return nil, err
					}
					err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj)
					if u, ok := obj.(*unstructured.Unstructured); ok {
						u.Object, err = content, nil
					}
					obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
					return obj, err
				}, reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
					called = true
					return result, nil
				}))
			got, err := wrapped.Reconcile(ctx, x)
			assert.NoError(t, err)
			assert.Equal(t, result, got)
			assert.True(t, called)
		}
	})
}
