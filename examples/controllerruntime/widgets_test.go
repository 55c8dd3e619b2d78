package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// widget is a custom resource. Yours is in a package of its own, with generated deep copies.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              widgetState `json:"spec,omitempty"`
	Status            widgetState `json:"status,omitempty"`
}

type widgetState struct {
	Colour string `json:"colour,omitempty"`
}

type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []widget `json:"items"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	return &c
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*widget)) //nolint:forcetypeassert // as made above
	}
	return &c
}

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func addWidgets(scheme *runtime.Scheme) {
	scheme.AddKnownTypeWithName(widgets.GroupVersion().WithKind("Widget"), &widget{})
	scheme.AddKnownTypeWithName(widgets.GroupVersion().WithKind("WidgetList"), &widgetList{})
	metav1.AddToGroupVersion(scheme, widgets.GroupVersion())
}

// painter gives a Widget its colour.
type painter struct{ client client.Client }

func (p *painter) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var w widget
	if err := p.client.Get(ctx, r.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	w.Status.Colour = w.Spec.Colour
	return ctrl.Result{}, p.client.Status().Update(ctx, &w)
}

// The same for a custom resource: the scheme is all that differs.
func TestWidgetsOfThisShardArePainted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		addWidgets(scheme)
		ring := shardertest.New(t, shardertest.Config{Scheme: scheme, Resources: []api.Resource{{GVR: widgets}}})
		objects := fake.NewClientBuilder().WithScheme(scheme).WithObjectTracker(ring.Tracker).
			WithRESTMapper(ring.Mapper).WithStatusSubresource(&widget{}).Build()
		tested := controllerruntime.WrapReconciler[widget](ring.Shard, objects, &painter{objects})
		ring.Run(func(ctx context.Context) {
			ring.Go(func(ctx context.Context) error {
				ring.Informer(widgets).RunWithContext(ctx)
				return nil
			})
			colourOf := func(name string, assigned bool) string {
				w := &widget{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
					Spec:       widgetState{Colour: "red"},
				}
				require.NoError(t, objects.Create(ctx, w))
				if assigned {
					ring.Assign(w)
				}
				synctest.Wait() // for the informer
				_, err := tested.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w)})
				require.NoError(t, err)
				ring.Get(w)
				return w.Status.Colour
			}
			assert.Equal(t, "red", colourOf("mine", true))
			assert.Empty(t, colourOf("unassigned", false))
		})
	})
}
