package shardertest_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/sharder/shardertest"
)

func widgetScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, AddToScheme(scheme))
	return scheme
}

// A custom resource needs no Go type.
func TestUnstructuredCustomResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := shardertest.New(t, shardertest.Config{
			Kinds: []schema.GroupVersionKind{widgets.GroupVersion().WithKind("Widget")}, Resources: ofRing,
		})
		ring.Run(func(context.Context) {
			seen := make(chan string, 2)
			ring.Go(func(ctx context.Context) error {
				source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
					ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
						return ring.Dynamic.Resource(widgets).List(ctx, o)
					},
					WatchFuncWithContext: ring.Dynamic.Resource(widgets).Watch,
				}, ring.Dynamic)
				example := &unstructured.Unstructured{}
				example.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
				informer := ring.Shard.NewInformer(source, example, 0, cache.Indexers{})
				return shard.RunController(ctx, ring.Shard, informer, 1,
					func(_ context.Context, u *unstructured.Unstructured) error {
						colour, _, err := unstructured.NestedString(u.Object, "spec", "colour")
						seen <- u.GetName() + " is " + colour
						return err
					})
			})
			for _, name := range []string{"mine", "unassigned"} {
				u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"colour": "blue"}}}
				u.SetGroupVersionKind(widgets.GroupVersion().WithKind("Widget"))
				u.SetNamespace("default")
				u.SetName(name)
				if name == "mine" {
					ring.Assign(u)
				} else {
					ring.Create(u)
				}
			}
			synctest.Wait()
			require.Len(t, seen, 1)
			assert.Equal(t, "mine is blue", <-seen)
		})
	})
}

// All clients have the same objects, each in its own form.
func TestClientsShareTheObjects(t *testing.T) {
	ring := shardertest.New(t, shardertest.Config{Scheme: widgetScheme(t), Resources: ofRing})
	generated := fake.NewSimpleClientset() // one of Kubernetes is like one of the user
	ring.Serve(&generated.Fake)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, StringData: map[string]string{"a": "1"},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(secret)
	require.NoError(t, err)
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	made, err := ring.Dynamic.Resource(secrets).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, made.GetUID())
	for _, client := range []*fake.Clientset{ring.Client, generated} {
		got, err := client.CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, secret.StringData, got.StringData)
		assert.Equal(t, made.GetUID(), got.UID)
		list, err := client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
	}
	metadata, err := ring.Metadata.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, metadata.Items, 1)
	assert.Equal(t, made.GetUID(), metadata.Items[0].UID)
	list, err := ring.Dynamic.Resource(secrets).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, "Secret", list.Items[0].GetKind())

	require.NoError(t, generated.CoreV1().Secrets("default").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	_, err = ring.Metadata.Resource(secrets).Namespace("default").Get(t.Context(), "s", metav1.GetOptions{})
	assert.ErrorContains(t, err, `"s" not found`)
	_, err = ring.Dynamic.Resource(widgets.GroupVersion().WithResource("gadgets")).Namespace("x").
		Get(t.Context(), "x", metav1.GetOptions{})
	assert.ErrorContains(t, err, `"x" not found`)
}

// A cache has what its selector selects, as on an API server. A program that lists its cache would see
// the objects of others otherwise.
func TestCachesShowOnlyObjectsOfThisShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := shardertest.New(t, shardertest.Config{Scheme: widgetScheme(t), Resources: ofRing})
		ring.Create(widget("before"))
		ring.Run(func(context.Context) {
			informer := ring.Informer(widgets)
			deleted := 0
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { deleted++ }})
			require.NoError(t, err)
			ring.Go(func(ctx context.Context) error {
				informer.RunWithContext(ctx)
				return nil
			})
			synctest.Wait() // it watches: what was created between its list and its watch may be shown as deleted
			mine := widget("mine")
			ring.Assign(mine)
			ring.Create(widget("later"))
			synctest.Wait()
			assert.Equal(t, []string{"default/mine"}, informer.GetStore().ListKeys())
			assert.Zero(t, deleted)
			ring.Assign(widget("later"))
			synctest.Wait()
			assert.ElementsMatch(t, []string{"default/mine", "default/later"}, informer.GetStore().ListKeys())
			ring.Drain(mine)
			synctest.Wait()
			assert.Equal(t, []string{"default/later"}, informer.GetStore().ListKeys())
			assert.Equal(t, 1, deleted)
		})
	})
}

// A whole ring runs on the fakes.
func TestASharderDistributesTheObjectsOfTheFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := shardertest.New(t, shardertest.Config{Scheme: widgetScheme(t), Resources: ofRing})
		s, err := sharder.New(ring.Client, ring.Metadata, ring.Mapper, sharder.Config{
			Namespace: "default", Ring: ring.Lease.Ring(), Resources: ofRing,
		})
		require.NoError(t, err)
		ring.Create(widget("early"))
		ring.Run(func(context.Context) {
			informer := ring.Informer(ofRing[0].GVR)
			ring.Go(func(ctx context.Context) error {
				informer.RunWithContext(ctx)
				return nil
			})
			ring.Go(s.Run)
			synctest.Wait()
			ring.Create(widget("late"))
			synctest.Wait()
			for _, name := range []string{"early", "late"} {
				w := widget(name)
				ring.Get(w)
				assert.Equal(t, ring.Lease.Identity(), w.Labels[api.ShardLabel(ring.Lease.Ring())], name)
			}
		})
	})
}

// Run holds the lease once more in each call.
func TestRunAgain(t *testing.T) {
	ring := shardertest.New(t, shardertest.Config{Scheme: widgetScheme(t), Resources: ofRing})
	for range 2 {
		called := false
		ring.Run(func(context.Context) {
			_, err := ring.Lease.Term()
			require.NoError(t, err)
			called = true
		})
		assert.True(t, called)
		_, err := ring.Lease.Term()
		require.Error(t, err)
	}
}
