package proxy_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/sharder/proxy"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
)

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return m
}

// member is a replica with its proxy.
type member struct {
	*replica.Replica
	connection *apisim.Client
	proxy      *proxy.Proxy
	client     kubernetes.Interface // the program's
	end        context.CancelFunc
	ended      chan error
}

// join starts a replica and waits until its proxy is ready.
func join(t *testing.T, server *apisim.Server, identity string, change func(*proxy.Config)) *member {
	c := replica.Config{
		Namespace: "default", Ring: "r", Identity: identity, Mapper: mapper(),
		Resources: []api.Resource{{GVR: configMaps, Children: []schema.GroupVersionResource{secrets}}},
	}
	connection := server.Client(identity)
	r, err := replica.New(connection.Config(), c)
	require.NoError(t, err)
	config := proxy.Config{
		Shard: r.Shard, Upstream: r.ShardConfig, Mapper: mapper(), Ring: "r", Identity: identity, Resources: c.Resources,
	}
	if change != nil {
		change(&config)
	}
	p, err := proxy.New(config)
	require.NoError(t, err)
	program := &rest.Config{Host: "http://proxy.invalid", Transport: ringtest.Handled{Handler: p}, QPS: -1}
	m := &member{Replica: r, connection: connection, proxy: p, ended: make(chan error, 1)}
	m.client, err = kubernetes.NewForConfig(program)
	require.NoError(t, err)
	var ctx context.Context
	ctx, m.end = context.WithCancel(t.Context())
	ready := make(chan struct{})
	go func() {
		m.ended <- r.Run(ctx, func(ctx context.Context) error { return p.Run(ctx, func() { close(ready) }) }, nil)
	}()
	<-ready
	return m
}

// leave ends a member.
func (m *member) leave(t *testing.T) {
	m.end()
	assert.NoError(t, <-m.ended)
}

func (m *member) names(t *testing.T) []string {
	list, err := m.client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	var names []string
	for _, item := range list.Items {
		assert.Equal(t, api.WithoutMarks(item.Labels), item.Labels)
		assert.Equal(t, api.WithoutMarks(item.Annotations), item.Annotations)
		names = append(names, item.Name)
	}
	return names
}

// settle waits until objects do not move any more.
func settle() { time.Sleep(3 * time.Minute) }

func TestTwoProgramsShareTheObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		admin, err := kubernetes.NewForConfig(server.Client("admin").Config())
		require.NoError(t, err)
		ctx := t.Context()
		all := map[string]bool{}
		for i := range 40 {
			name := "m" + strconv.Itoa(i)
			all[name] = true
			_, err := admin.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		a, b := join(t, server, "a", nil), join(t, server, "b", nil)
		defer a.leave(t)
		defer b.leave(t)
		settle()
		ofA, ofB := a.names(t), b.names(t)
		assert.ElementsMatch(t, slices.Collect(maps.Keys(all)), slices.Concat(ofA, ofB))
		require.NotEmpty(t, ofA)
		require.NotEmpty(t, ofB)

		mine, others := ofA[0], ofB[0]
		maps := a.client.CoreV1().ConfigMaps("default")
		m, err := maps.Get(ctx, others, metav1.GetOptions{})
		require.NoError(t, err, "a single object is read as it is")
		m.Data = map[string]string{"k": "v"}
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), err)
		assert.ErrorContains(t, err, "it is with b")
		_, err = maps.Patch(ctx, others, types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{})
		assert.True(t, apierrors.IsConflict(err), err)
		assert.True(t, apierrors.IsConflict(maps.Delete(ctx, others, metav1.DeleteOptions{})))

		// An update of a reconciler that builds all metadata from nothing, and one that copies nothing.
		m, err = maps.Update(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: mine, Labels: map[string]string{"app": "x"}}, Data: map[string]string{"k": "v"},
		}, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"app": "x"}, m.Labels)
		assert.Empty(t, m.Annotations)
		stored, err := admin.CoreV1().ConfigMaps("default").Get(ctx, mine, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "a", stored.Labels[api.ShardLabel("r")])
		assert.NotEmpty(t, stored.Annotations, "the record is kept")
		assert.Equal(t, "x", stored.Labels["app"])
		assert.Equal(t, "v", stored.Data["k"])

		_, err = maps.Patch(ctx, mine, types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/metadata/labels","value":{"app":"y"}}]`), metav1.PatchOptions{})
		require.NoError(t, err)
		stored, err = admin.CoreV1().ConfigMaps("default").Get(ctx, mine, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "a", stored.Labels[api.ShardLabel("r")])
		assert.Equal(t, "y", stored.Labels["app"])
		assert.NoError(t, maps.Delete(ctx, mine, metav1.DeleteOptions{}))
	})
}

func TestChildrenAreStampedAndFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		ctx := t.Context()
		a := join(t, server, "a", nil)
		defer a.leave(t)
		root, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "root"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		settle()
		secrets := a.client.CoreV1().Secrets("default")
		owner := *metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		made, err := secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{owner}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Empty(t, made.Labels)
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "alone"}}, metav1.CreateOptions{})
		require.NoError(t, err, "not the ring's")
		list, err := secrets.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		assert.ElementsMatch(t, []string{"child"}, names, "visible at once, because it is stamped")
		_, err = secrets.Patch(ctx, "alone", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)

		b := join(t, server, "b", nil)
		a.leave(t)
		a.ended <- nil // for the deferred leave
		settle()
		assert.Equal(t, []string{"root"}, b.names(t))
		_, err = b.client.CoreV1().Secrets("default").Patch(ctx, "child", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		assert.NoError(t, err)
		b.leave(t)
	})
}

func TestItsOwnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		ctx := t.Context()
		own := func(c *proxy.Config) { c.OwnElection = types.NamespacedName{Namespace: "default", Name: "program"} }
		a, b := join(t, server, "a", own), join(t, server, "b", own)
		defer a.leave(t)
		defer b.leave(t)
		for _, m := range []*member{a, b} {
			leases := m.client.CoordinationV1().Leases("default")
			_, err := leases.Get(ctx, "program", metav1.GetOptions{})
			assert.True(t, apierrors.IsNotFound(err), err)
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "program"}}
			made, err := leases.Create(ctx, lease, metav1.CreateOptions{})
			require.NoError(t, err, "each has its own")
			assert.Equal(t, "program", made.Name)
			made, err = leases.Update(ctx, made, metav1.UpdateOptions{})
			require.NoError(t, err)
			assert.Equal(t, "program", made.Name)
			list, err := leases.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=program"})
			require.NoError(t, err)
			require.Len(t, list.Items, 1)
			assert.Equal(t, "program", list.Items[0].Name)
		}
	})
}

func TestWatchesShowOnlyOwnObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		ctx := t.Context()
		a := join(t, server, "a", nil)
		w, err := a.client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		_, err = a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		event := <-w.ResultChan()
		assert.EqualValues(t, "ADDED", event.Type)
		assert.Equal(t, "x", event.Object.(*corev1.ConfigMap).Name)
		assert.Empty(t, event.Object.(*corev1.ConfigMap).Labels)
		b := join(t, server, "b", nil)
		a.end()
		w.Stop() // as its process ends
		assert.NoError(t, <-a.ended)
		settle()
		assert.Equal(t, []string{"x"}, b.names(t))
		b.leave(t)
	})
}

func TestOnlyTheObjectOfAnElectionIsTheShardsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		ctx := t.Context()
		own := func(c *proxy.Config) { c.OwnElection = types.NamespacedName{Namespace: "default", Name: "program"} }
		a, b := join(t, server, "a", own), join(t, server, "b", own)
		defer a.leave(t)
		defer b.leave(t)
		for _, name := range []string{"c", "d", "e", "f", "g", "h", "i", "j"} {
			_, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		settle()
		ofA, err := a.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		ofB, err := b.client.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, append(ofA.Items, ofB.Items...), 8, "each is with one")
		assert.NotContains(t, ofA.Items[0].Labels, api.ShardLabel("r"), "marks are hidden")

		_, err = a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "program"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		m, err := a.client.CoreV1().ConfigMaps("default").Patch(ctx, "program", types.MergePatchType,
			[]byte(`{"metadata":{"name":"program"},"data":{"leader":"a"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, "program", m.Name)
		_, err = b.client.CoreV1().ConfigMaps("default").Get(ctx, "program", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "b has its own: %v", err)
	})
}

// A program that does not see the children of a root yet that has just moved here does not create them again, although
// the API server makes their names.
func TestChildrenAreNotCreatedAgainWhenTheirRootHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer(apisim.Resource{GroupVersionResource: secrets, Kind: "Secret", Namespaced: true})
		ctx := t.Context()
		a := join(t, server, "a", nil)
		root, err := a.client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "root"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		settle()
		owner := *metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			GenerateName: "child-", OwnerReferences: []metav1.OwnerReference{owner},
		}}
		_, err = a.client.CoreV1().Secrets("default").Create(ctx, child, metav1.CreateOptions{})
		require.NoError(t, err, "a root that is new here has no children to see")
		b := join(t, server, "b", nil)
		a.leave(t)
		settle()
		of := b.client.CoreV1().Secrets("default")
		_, err = of.Create(ctx, child, metav1.CreateOptions{})
		require.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = of.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "named", OwnerReferences: child.OwnerReferences,
		}}, metav1.CreateOptions{})
		require.NoError(t, err, "there cannot be two")
		time.Sleep(2 * time.Second)
		_, err = of.Create(ctx, child, metav1.CreateOptions{})
		require.NoError(t, err)
		_, err = of.Create(ctx, child, metav1.CreateOptions{})
		require.NoError(t, err)
		b.leave(t)
	})
}
