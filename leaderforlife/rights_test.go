package leaderforlife_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// refusing returns a fake clientset with the Pod a, whose user lacks rights until they are granted.
func refusing(granted *atomic.Bool, lacking ...string) *fake.Clientset {
	client := fake.NewSimpleClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u"}})
	lacks := map[string]bool{}
	for _, l := range lacking {
		lacks[l] = true
	}
	client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if granted.Load() || !lacks[a.GetVerb()+" "+a.GetResource().Resource] {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "",
			fmt.Errorf("User %q cannot %s resource %q", "u", a.GetVerb(), a.GetResource().Resource))
	})
	client.PrependReactor("create", "selfsubjectaccessreviews",
		func(a clienttesting.Action) (bool, runtime.Object, error) {
			r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
			of := r.Spec.ResourceAttributes
			r.Status.Allowed = granted.Load() || !lacks[of.Verb+" "+of.Resource]
			return true, r, nil
		})
	return client
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
		"what it does not watch": {
			[]string{"get configmaps", "watch configmaps", "watch pods"},
			[]leader.Option{leader.WithoutWatch()},
			`get on resource configmaps of API group "" in namespace ns`,
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
				granted := &atomic.Bool{}
				core, logs := observer.New(zap.WarnLevel)
				options := append([]leader.Option{
					leader.WithClient(refusing(granted, c.lacking...)), leader.WithNamespace("ns"),
					leader.WithPodName("a"), leader.WithLogger(zap.New(core)),
				}, c.options...)
				ended := make(chan error)
				go func() { ended <- leader.Become(t.Context(), "l", options...) }()
				time.Sleep(10 * time.Second)
				lines := logs.FilterMessage(missing).All()
				require.Len(t, lines, 1)
				assert.Equal(t, c.want, lines[0].ContextMap()["grant"])
				granted.Store(true)
				require.NoError(t, <-ended, "no restart is needed")
			})
		})
	}
	t.Run("of TryBecome", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			client := refusing(&atomic.Bool{}, "get pods", "create configmaps")
			_, err := leader.TryBecome(t.Context(), "l", leader.WithNamespace("ns"), leader.WithPodName("a"),
				leader.WithClient(client), leader.WithLogger(zap.New(core)))
			assert.True(t, apierrors.IsForbidden(err))
			assert.Equal(t, 1, logs.FilterMessage(missing).Len())
		})
	})
	t.Run("the minimal role", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			require.NoError(t, leader.Become(t.Context(), "l", leader.WithNamespace("ns"), leader.WithPodName("a"),
				leader.WithClient(refusing(&atomic.Bool{}, "list pods", "patch pods", "watch pods", "watch configmaps",
					"delete configmaps")), leader.WithLogger(zap.New(core))))
			assert.Zero(t, logs.FilterMessage(missing).Len(), "the consequences are said, each once")
		})
	})
}
