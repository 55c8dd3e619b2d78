package fencing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/kube/kubetest"
)

// guardedFencer is a controller for a healthy node n1 whose user has the rights that an authorizer grants, and its log.
func guardedFencer(t *testing.T, a *kubetest.Authorizer, settings string, change func(*fencing.Config)) (
	*fake.Clientset, *fencing.Controller, *observer.ObservedLogs,
) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", ResourceVersion: "1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	kube := fake.NewSimpleClientset(node,
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fencing", Name: "fence-config-node-n1"},
			Data: map[string]string{
				"config.properties":     settings,
				"fence-method-plug-off": "template=fence-method-template-rack\nplug=n1\naction=off\n",
				"fence-method-plug-on":  "template=fence-method-template-rack\nplug=n1\naction=on\n",
			},
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "fencing", Name: "fence-method-template-rack"},
			Data:       map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"},
		},
	)
	dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{v1alpha1.Resource(): "NodeFenceList"})
	a.Guard(kube, dyn)
	rack := fencingtest.NewRack(nil, "n1")
	t.Cleanup(rack.Close)
	core, logs := observer.New(zap.InfoLevel)
	config := fencing.Config{
		Namespace: "fencing", OutsideCluster: true, Leadership: &reign{}, Agents: agents{rack}, Logger: zap.New(core),
	}
	if change != nil {
		change(&config)
	}
	c, err := fencing.New(kube, dyn, config)
	require.NoError(t, err)
	return kube, c, logs
}

const plain = "node_name=n1\nisolation=mark-unschedulable\npower_management=plug-off plug-on\n" +
	"recovery=mark-schedulable\n"

// What only a fence needs is missed before a node is lost.
func TestMissingRightsAreSaidBeforeANodeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &kubetest.Authorizer{}
		a.Lack("delete pods", "patch pods/status", "patch nodes/status",
			"delete nodes", "create pods/eviction", "get secrets", "patch events") // are not needed
		kube, c, logs := guardedFencer(t, a, plain, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Hour)
		want := []string{`patch on resource nodes/status of API group "" by a ClusterRole; ` +
			`delete on resource pods of API group "" by a ClusterRole; ` +
			`patch on resource pods/status of API group "" by a ClusterRole`}
		assert.Equal(t, want, kubetest.Grants(logs))
		n, err := kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Len(t, n.Status.Conditions, 1)

		a.Lack()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, logs.FilterMessage("no right is missing any more").Len())
		n, err = kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Len(t, n.Status.Conditions, 2, "FenceReady")
		before := a.Reviews()
		time.Sleep(time.Hour)
		assert.Equal(t, before, a.Reviews())

		a.Lack("get nodes") // some day
		time.Sleep(10 * time.Minute)
		assert.Len(t, kubetest.Grants(logs), 2)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A controller asks once, and not for long.
func TestRightsAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &kubetest.Authorizer{}
		_, c, logs := guardedFencer(t, a, plain, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		assert.Empty(t, kubetest.Grants(logs))
		assert.Equal(t, 23, a.Reviews())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestRightsThatTheConfigurationNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &kubetest.Authorizer{}
		a.Lack("create pods/eviction", "delete volumeattachments", "delete nodes", "get secrets", "create events",
			"get persistentvolumes")
		_, c, logs := guardedFencer(t, a, "node_name=n1\nisolation=mark-unschedulable detach-volumes\n"+
			"power_management=plug-off plug-on\nrecovery=mark-schedulable\n",
			func(c *fencing.Config) {
				c.Events = events.NewFakeRecorder(100)
				c.Storage = map[string]api.Storage{"port-off": {Drivers: []string{"d"}}}
			})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{`create on resource events of API group "events.k8s.io" in namespace default; ` +
			`create on resource events of API group "events.k8s.io" in namespace fencing; ` +
			`create on resource pods/eviction of API group "" by a ClusterRole; ` +
			`delete on resource volumeattachments of API group "storage.k8s.io" by a ClusterRole; ` +
			`get on resource persistentvolumes of API group "" by a ClusterRole`}, kubetest.Grants(logs))
		cancel()
		require.NoError(t, <-ended)
	})
}

// The error of Run names the first right, and the log all of them.
func TestControllerThatMayNotBeginSaysAllThatIsMissing(t *testing.T) {
	for name, run := range map[string]func(context.Context, *fencing.Controller) error{
		"Run":    func(ctx context.Context, c *fencing.Controller) error { return c.Run(ctx) },
		"Assess": func(ctx context.Context, c *fencing.Controller) error { _, err := c.Assess(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &kubetest.Authorizer{}
				a.Lack("list nodes", "delete pods")
				_, c, logs := guardedFencer(t, a, plain, nil)
				assert.ErrorContains(t, run(t.Context(), c), "list Nodes")
				assert.Equal(t, []string{`list on resource nodes of API group "" by a ClusterRole; ` +
					`delete on resource pods of API group "" by a ClusterRole`}, kubetest.Grants(logs))
			})
		})
	}
}
