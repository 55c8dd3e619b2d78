package fencing_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// A user's test of a configuration: fake clientsets, a rack of plugs, and virtual time.
func TestFakeClientsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var objects []runtime.Object
		for i, ready := range []corev1.ConditionStatus{
			corev1.ConditionUnknown, corev1.ConditionTrue,
			corev1.ConditionTrue,
		} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i+1), UID: "uid"}}
			// That it has the condition FenceReady shows that it has been Ready once.
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeReady, Status: ready},
				{Type: "FenceReady", Status: corev1.ConditionTrue},
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: corev1.NamespaceNodeLease,
				Name:      node.Name,
			}}
			objects = append(objects, node, lease)
		}
		objects = append(objects,
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fencing", Name: "fence-config-node-n1"},
				Data: map[string]string{
					"config.properties": "node_name=n1\nisolation=mark-unschedulable\npower_management=plug-off " +
						"plug-on\nrecovery=mark-schedulable\n",
					"fence-method-plug-off": "template=fence-method-template-rack\nplug=n1\naction=off\n",
					"fence-method-plug-on":  "template=fence-method-template-rack\nplug=n1\naction=on\n",
				},
			},
			&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fencing", Name: "fence-method-template-rack"},
				Data:       map[string]string{"template.properties": "agent_name=fence_rack\nip=rack\n"},
			},
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db-0", UID: "uid"},
				Spec:       corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{StartTime: &metav1.Time{}},
			},
		)
		kube := fake.NewSimpleClientset(objects...)
		dyn := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{v1alpha1.Resource(): "NodeFenceList"})
		rack := fencingtest.NewRack(nil, "n1")
		defer rack.Close()

		controller, err := fencing.New(kube, dyn,
			fencing.Config{Namespace: "fencing", OutsideCluster: true, Leadership: &reign{}, Agents: agents{rack}})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- controller.Run(ctx) }()
		for range 600 { // heartbeats of the other nodes
			for _, node := range []string{"n2", "n3"} {
				now := metav1.NowMicro()
				l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
					Namespace: corev1.NamespaceNodeLease,
					Name:      node,
				}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
				_, err := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, l, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			wait(ctx, time.Second)
		}
		require.Equal(t, 1, rack.Count("n1", "power", agent.ActionOff))
		pods, err := kube.CoreV1().Pods("ns").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, pods.Items)
		cancel()
		require.NoError(t, <-ended)
	})
}
