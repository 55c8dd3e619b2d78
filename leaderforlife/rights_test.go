package leaderforlife_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// refusing returns a fake clientset with the Pod a, whose user lacks rights until they are granted.
func refusing(lacking ...string) (*fake.Clientset, *kubetest.Authorizer) {
	client := fake.NewSimpleClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}})
	a := &kubetest.Authorizer{}
	a.Lack(lacking...)
	a.Guard(client)
	return client, a
}

func TestMissingRightsAreSaidInOneLine(t *testing.T) {
	const missing = "rights are missing: grant all of them"
	for name, c := range map[string]struct {
		lacking []string
		options []leader.Option
		want    string
	}{
		"two required": {
			[]string{"get pods", "create configmaps"},
			nil,
			`create on resource configmaps of API group "" in namespace ns; ` +
				`get on resource pods of API group "" in namespace ns`,
		},
		"of a Lease and of nodes": {
			[]string{"get leases", "create leases", "get nodes"},
			[]leader.Option{leader.WithLease(), leader.WithNodeCheck()},
			`create, get on resource leases of API group "coordination.k8s.io" in namespace ns; ` +
				`get on resource nodes of API group "" by a ClusterRole`,
		},
		"one required": {
			[]string{"create configmaps", "patch pods"},
			nil,
			`create on resource configmaps of API group "" in namespace ns; ` +
				`patch on resource pods of API group "" in namespace ns`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, authorizer := refusing(c.lacking...)
				core, logs := observer.New(zap.WarnLevel)
				options := append([]leader.Option{
					leader.WithClient(client), leader.WithNamespace("ns"),
					leader.WithPodName("a"), leader.WithLogger(zap.New(core)),
				}, c.options...)
				ended := make(chan error)
				go func() { ended <- leader.Become(t.Context(), "l", options...) }()
				time.Sleep(10 * time.Second)
				lines := logs.FilterMessage(missing).All()
				require.Len(t, lines, 1)
				assert.Equal(t, c.want, lines[0].ContextMap()["grant"])
				authorizer.Lack()
				require.NoError(t, <-ended, "no restart is needed")
			})
		})
	}
	t.Run("the minimal role", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			client, _ := refusing("list pods", "patch pods", "watch pods", "watch configmaps", "delete configmaps")
			require.NoError(t, leader.Become(t.Context(), "l", leader.WithNamespace("ns"), leader.WithPodName("a"),
				leader.WithClient(client), leader.WithLogger(zap.New(core))))
			assert.Zero(t, logs.FilterMessage(missing).Len(), "the consequences are said, each once")
		})
	})
}
