package sharder

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// authorized returns fakes with an authorizer, who does not grant what is lacking.
func authorized(t *testing.T, lacking ...string) (
	*fake.Clientset, *metadatafake.FakeMetadataClient, *kubetest.Authorizer,
) {
	kube, meta := fakes(t)
	a := &kubetest.Authorizer{}
	a.Lack(lacking...)
	a.Guard(kube, meta)
	return kube, meta, a
}

func TestMissingRightsOfASharderAreSaidInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta, a := authorized(t, "patch configmaps", "list leases")
		core, logs := observer.New(zap.WarnLevel)
		c := testConfig()
		c.Logger = zap.New(core)
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		time.Sleep(10 * time.Second)
		assert.Equal(t, []string{`list on resource leases of API group "coordination.k8s.io" in namespace ns; ` +
			`patch on resource configmaps of API group "" by a ClusterRole`}, kubetest.Grants(logs))
		assert.Equal(t, 2, logs.Len(), "the other says that the sharder does not begin: %v", logs.All())

		a.Lack()
		time.Sleep(15 * time.Second)
		_, running := s.Status()
		assert.True(t, running)
		cancel()
		assert.NoError(t, <-ended)
		assert.Len(t, kubetest.Grants(logs), 1)
	})
}

// Thousands of objects of a resource have one cause.
func TestARightThatIsMissingIsNotSaidForEachObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta, a := authorized(t, "patch configmaps")
		for i := range 20 {
			o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprint("o", i), UID: "u",
			}}
			o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
			require.NoError(t, meta.Tracker().Create(ringtest.ConfigMaps, o, "default"))
		}
		core, logs := observer.New(zap.WarnLevel)
		c := testConfig()
		c.Resources = append(c.Resources, api.Resource{GVR: ringtest.Widgets}) // which may be patched
		c.Logger = zap.New(core)
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		lease, err := shardlease.New(kube, shardlease.Config{Namespace: testNamespace, Ring: testRing, Identity: "a"})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { assert.NoError(t, s.Run(ctx)) })
		all.Go(func() {
			assert.NoError(t, lease.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}))
		})
		time.Sleep(10 * time.Minute)
		assert.Equal(t, []string{`patch on resource configmaps of API group "" by a ClusterRole`},
			kubetest.Grants(logs))
		assert.Equal(t, 3, logs.Len(), "the others say that objects wait, and which: %v", logs.All())
		a.Lack()
		time.Sleep(2 * time.Minute)
		list, err := meta.Resource(ringtest.ConfigMaps).List(ctx,
			metav1.ListOptions{LabelSelector: protocol.KeysOf(testRing).Shard + "=a"})
		require.NoError(t, err)
		assert.Len(t, list.Items, 20)
		cancel()
		all.Wait()
	})
}

func TestMissingRightsOfAReplicaAreSaidInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta, a := authorized(t, "create leases", "patch configmaps", "update configmaps")
		core, logs := observer.New(zap.WarnLevel)
		log := zap.New(core)
		c := testConfig()
		c.Logger = log
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		lease, err := shardlease.New(kube, shardlease.Config{
			Namespace: testNamespace, Ring: testRing, Identity: "a", Logger: log,
		})
		require.NoError(t, err)
		elector, err := leaderelection.New(kube, leaderelection.Config{
			Namespace: testNamespace, Name: "e", OnLost: func(error) {}, Logger: log,
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended, worked := make(chan error), make(chan struct{})
		go func() {
			ctx, end := s.LogMissingRights(ctx)
			defer end()
			ended <- lease.Run(ctx, func(ctx context.Context) error {
				close(worked)
				return s.RunElected(ctx, elector.Run)
			})
		}()
		time.Sleep(4 * time.Second) // the next review begins at 5 s
		want := `create on resource leases of API group "coordination.k8s.io" in namespace ns; ` +
			`update on resource configmaps of API group "" in namespace ns; ` +
			`patch on resource configmaps of API group "" by a ClusterRole`
		assert.Equal(t, []string{want}, kubetest.Grants(logs), "before the sharder begins")
		a.Lack("update configmaps")
		time.Sleep(time.Minute)
		assert.Len(t, kubetest.Grants(logs), 2, "the rest")
		a.Lack()
		time.Sleep(2 * time.Minute)
		<-worked
		_, running := s.Status()
		assert.True(t, running)
		cancel()
		assert.NoError(t, <-ended)
		assert.Len(t, kubetest.Grants(logs), 2)
	})
}

// Without the right to ask for rights, a sharder says what is refused, as it does without reviews.
func TestASharderThatMayNotAskForItsRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, meta, _ := authorized(t, "patch configmaps", "create selfsubjectaccessreviews")
		core, logs := observer.New(zap.WarnLevel)
		c := testConfig()
		c.Logger = zap.New(core)
		s, err := New(kube, meta, ringtest.TestMapper(), c)
		require.NoError(t, err)
		assert.ErrorContains(t, s.Run(t.Context()), `grant the verb "patch" on resource configmaps`)
		assert.Empty(t, kubetest.Grants(logs))
		assert.Equal(t, 1, logs.FilterMessage("the sharder cannot begin yet, retrying").Len())
	})
}
