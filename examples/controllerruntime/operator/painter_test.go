package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	v1 "github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator/v1"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// workshop is a shard with a painter, on fakes.
type workshop struct {
	t       *testing.T
	ring    *shardertest.Ring
	objects client.WithWatch
	painter *painter
	tested  interface {
		Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error)
	}
}

func inWorkshop(t *testing.T, work func(ctx context.Context, w *workshop)) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, v1.AddToScheme(scheme))
		require.NoError(t, appsv1.AddToScheme(scheme))
		deployments := appsv1.SchemeGroupVersion.WithResource("deployments")
		ring := shardertest.New(t, shardertest.Config{Scheme: scheme, Resources: []api.Resource{{
			GVR: v1.Widgets(), Children: []schema.GroupVersionResource{deployments},
		}}})
		objects := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(ring.Tracker).
			WithRESTMapper(ring.Mapper).WithStatusSubresource(&v1.Widget{}).Build()
		w := &workshop{t: t, ring: ring, objects: objects, painter: &painter{objects, ring.Shard, "me"}}
		w.tested = controllerruntime.WrapReconciler[v1.Widget](ring.Shard, objects, w.painter)
		ring.Run(func(ctx context.Context) {
			for _, resource := range []schema.GroupVersionResource{v1.Widgets(), deployments} {
				ring.Go(func(ctx context.Context) error {
					ring.Informer(resource).RunWithContext(ctx)
					return nil
				})
			}
			work(ctx, w)
		})
	})
}

func (w *workshop) create(ctx context.Context, name string) *v1.Widget {
	w.t.Helper()
	widget := &v1.Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.WidgetSpec{Colour: "red"},
	}
	require.NoError(w.t, w.objects.Create(ctx, widget))
	return widget
}

// reconcile returns the status after a call of the wrapped reconciler.
func (w *workshop) reconcile(ctx context.Context, widget *v1.Widget) v1.WidgetStatus {
	w.t.Helper()
	synctest.Wait() // for the informer
	_, err := w.tested.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(widget)})
	require.NoError(w.t, err)
	w.ring.Get(widget)
	return widget.Status
}

func TestWidgetsOfThisShardArePainted(t *testing.T) {
	inWorkshop(t, func(ctx context.Context, w *workshop) {
		mine := w.create(ctx, "mine")
		w.ring.Assign(mine)
		assert.Equal(t, v1.WidgetStatus{Colour: "red", Worker: "me"}, w.reconcile(ctx, mine))
		assert.Empty(t, w.reconcile(ctx, w.create(ctx, "unassigned")))
	})
}

// A Widget that comes from another shard is not painted once more, unless its colour is another one
// now.
func TestWidgetsArePaintedOnce(t *testing.T) {
	inWorkshop(t, func(ctx context.Context, w *workshop) {
		widget := w.create(ctx, "w")
		w.ring.Assign(widget)
		w.reconcile(ctx, widget)
		w.painter.worker = "another"
		assert.Equal(t, v1.WidgetStatus{Colour: "red", Worker: "me"}, w.reconcile(ctx, widget))
		widget.Spec.Colour = "blue"
		require.NoError(t, w.objects.Update(ctx, widget))
		assert.Equal(t, v1.WidgetStatus{Colour: "blue", Worker: "another"}, w.reconcile(ctx, widget))
	})
}

// The Pods of a Widget have its labels, and are not replaced when it moves to another shard, which
// changes the labels of the ring. A label that a user sets replaces them.
func TestAHandoverReplacesNoPods(t *testing.T) {
	inWorkshop(t, func(ctx context.Context, w *workshop) {
		widget := w.create(ctx, "w")
		w.ring.Assign(widget)
		widget.Labels["team"] = "a"
		require.NoError(t, w.objects.Update(ctx, widget))
		w.reconcile(ctx, widget)
		shown := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "w"}}
		w.ring.Get(shown)
		assert.Equal(t, "a", shown.Spec.Template.Labels["team"])
		assert.Equal(t, w.ring.Lease.Identity(), shown.Labels[api.ShardLabel("test")], "the cache shows it")
		rollOuts, template := 0, shown.Spec.Template
		replaced := func() int {
			w.reconcile(ctx, widget)
			w.ring.Get(shown)
			if !equality.Semantic.DeepEqual(shown.Spec.Template, template) {
				rollOuts++
			}
			template = shown.Spec.Template
			return rollOuts
		}
		for i := range 20 {
			// The ring of the test has one shard only. In another one, the Widget moves.
			widget.Labels[api.ShardLabel("another")] = fmt.Sprint(i)
			require.NoError(t, w.objects.Update(ctx, widget))
			replaced()
		}
		assert.Zero(t, rollOuts)
		widget.Labels["team"] = "b"
		require.NoError(t, w.objects.Update(ctx, widget))
		assert.Equal(t, 1, replaced())
	})
}

// A Deployment that exists, and that the cache does not show yet, is not made a second time under another
// name: its name follows from that of the Widget. The request is repeated.
func TestADeploymentThatTheCacheDoesNotShowIsNotMadeTwice(t *testing.T) {
	inWorkshop(t, func(ctx context.Context, w *workshop) {
		widget := w.create(ctx, "w")
		w.ring.Assign(widget)
		w.reconcile(ctx, widget)
		w.painter.client = interceptor.NewClient(w.objects, interceptor.Funcs{Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if _, ok := o.(*appsv1.Deployment); ok {
				return apierrors.NewNotFound(appsv1.Resource("deployments"), key.Name)
			}
			return c.Get(ctx, key, o, options...)
		}})
		_, err := w.tested.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(widget)})
		assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		var all appsv1.DeploymentList
		require.NoError(t, w.objects.List(ctx, &all))
		assert.Len(t, all.Items, 1)

		w.painter.client = w.objects
		w.reconcile(ctx, widget)
	})
}
