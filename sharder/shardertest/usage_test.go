package shardertest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

// This is an operator of a custom resource, as a user writes it. The types are usually in a package of
// their own, with generated deep copies.

var (
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	secrets = corev1.SchemeGroupVersion.WithResource("secrets")
	ofRing  = []api.Resource{{GVR: widgets, Children: []schema.GroupVersionResource{secrets}}}
)

// Widget is a custom resource.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              WidgetSpec `json:"spec,omitempty"`
}

// WidgetSpec is the wanted state of a Widget.
type WidgetSpec struct {
	Colour string `json:"colour,omitempty"`
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = nil
	for i := range l.Items {
		c.Items = append(c.Items, *l.Items[i].DeepCopyObject().(*Widget)) //nolint:forcetypeassert // as made above
	}
	return &c
}

// AddToScheme adds the types.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(widgets.GroupVersion(), &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(scheme, widgets.GroupVersion())
	return nil
}

// operator gives each Widget a Secret with its colour.
type operator struct {
	client kubernetes.Interface
	shard  *shard.Shard
}

func (o *operator) run(ctx context.Context, widgets cache.SharedIndexInformer) error {
	return shard.RunController(ctx, o.shard, widgets, 2, o.reconcile)
}

func (o *operator) reconcile(ctx context.Context, w *Widget) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(w, widgets.GroupVersion().WithKind("Widget")),
		}},
		StringData: map[string]string{"colour": w.Spec.Colour},
	}
	if err := o.shard.Stamp(secret); err != nil {
		return err
	}
	_, err := o.client.CoreV1().Secrets(w.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// This is the test of the operator. The test acts as the sharder: it assigns a Widget and drains it.
// In a synctest bubble, synctest.Wait returns when nothing is left to do.
func TestSecretsAreMadeForTheWidgetsOfThisShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, AddToScheme(scheme))
		ring := shardertest.New(t, shardertest.Config{Scheme: scheme, Resources: ofRing})
		ring.Run(func(ctx context.Context) {
			tested := &operator{ring.Client, ring.Shard}
			ring.Go(func(ctx context.Context) error { return tested.run(ctx, ring.Informer(widgets)) })

			// One Widget is assigned to this shard, the other to none.
			mine := widget("mine")
			ring.Assign(mine)
			ring.Create(widget("unassigned"))
			synctest.Wait()
			made, err := ring.Client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			require.NoError(t, err)
			require.Len(t, made.Items, 1)
			assert.Equal(t, "mine", made.Items[0].Name)
			assert.Equal(t, "red", made.Items[0].StringData["colour"])
			assert.Equal(t, ring.Lease.Identity(), made.Items[0].Labels[api.ShardLabel(ring.Lease.Ring())])

			// The sharder drains the Widget. The shard lets go of it and does not work on it any more.
			ring.Drain(mine)
			synctest.Wait()
			ring.Get(mine)
			assert.NotContains(t, mine.Labels, api.ShardLabel(ring.Lease.Ring()))
			assert.ErrorIs(t, ring.Shard.Do(ctx, mine, func(context.Context) error { return nil }), shard.ErrNotMine)
		})
	})
}

func widget(name string) *Widget {
	return &Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       WidgetSpec{Colour: "red"},
	}
}
