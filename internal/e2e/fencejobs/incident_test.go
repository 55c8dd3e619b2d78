package fencejobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// A node is lost, fenced by Jobs, released, switched on again, and back.
func TestNodeIsFencedByJobs(t *testing.T) {
	c := newCluster(t)
	ctx := t.Context()
	host, victim := newKubelet(t, c.admin, c.namespace), newKubelet(t, c.admin, c.namespace)
	newKubelet(t, c.admin, c.namespace) // one of two would be half of the cluster
	c.victim.Store(victim)
	c.configure(victim.node)
	pod, err := c.admin.CoreV1().Pods(c.namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "db-0"}, Spec: corev1.PodSpec{
			NodeName: victim.node, Containers: []corev1.Container{{
				Name: "db", Image: "none.invalid/none", SecurityContext: restricted(),
			}},
			SecurityContext: &corev1.PodSecurityContext{
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	dyn, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := dyn.Resource(v1alpha1.Resource()).List(ctx, metav1.ListOptions{})
		return err == nil
	}, patience, poll, "NodeFences are not served")
	controller, err := fencing.New(c.admin, dyn, fencing.Config{
		Namespace: c.namespace, Node: host.node, Leadership: always{},
		Nodes:  api.NodeSelector{Selector: labels.Set{c.namespace: "true"}.AsSelector()},
		Agents: c.new(func(c *fencejobs.Config) { c.StartWithin, c.ClockSkew = 50*time.Second, 5*time.Second }),
		Limits: api.Limits{Observation: time.Second, CoolDown: time.Second}, CommandTimeout: time.Minute,
	})
	require.NoError(t, err)
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { assert.NoError(t, controller.Run(running)) })
	defer ended.Wait()
	defer stop()

	require.Eventually(t, func() bool {
		node, err := c.admin.CoreV1().Nodes().Get(ctx, victim.node, metav1.GetOptions{})
		require.NoError(t, err)
		for _, c := range node.Status.Conditions {
			if c.Type == "FenceReady" && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}, patience, poll, "the node was not checked")
	victim.power(false)
	var fence v1alpha1.NodeFence
	require.Eventually(t, func() bool {
		u, err := dyn.Resource(v1alpha1.Resource()).Get(ctx, v1alpha1.Name(victim.node), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		require.NoError(t, err)
		fence = v1alpha1.NodeFence{}
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &fence))
		return fence.Status.Phase == v1alpha1.PhaseFinal
	}, 3*patience, poll, "%+v", &fence.Status)
	assert.Equal(t, 1, c.offs())
	assert.True(t, c.machine.On())
	_, err = c.admin.CoreV1().Pods(c.namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
	var names []string
	for _, job := range c.jobs() {
		names = append(names, job.Name)
	}
	assert.Len(t, fence.Status.Jobs, 2)
	assert.Subset(t, names, fence.Status.Jobs, "off and on, as the record says")
	assert.Zero(t, victim.pods())
}

// configure says that the machine of a node has the cluster's BMC.
func (c *cluster) configure(node string) {
	c.t.Helper()
	const template = "fence-method-template-bmc"
	method := "template=" + template + "\nsettle=10s\naction="
	for name, data := range map[string]map[string]string{
		"fence-config-node-" + node: {
			"config.properties": "node_name=" + node +
				"\nisolation=mark-unschedulable\npower_management=bmc-off bmc-on\nrecovery=mark-schedulable\n" +
				"not_ready_for=1s\npower_wait=1s\n",
			"fence-method-bmc-off": method + "off\n", "fence-method-bmc-on": method + "on\n",
		},
		template: {
			"template.properties": fmt.Sprintf(
				"agent_name=fence_ipmilan\nip=127.0.0.1\nipport=%s\nusername=%s\npassword.secret=bmc/"+
					"password\nlanplus=1\ncipher=3\npower_wait=0\nipmitool_timeout=%s\n",
				c.bmc.Parameters["ipport"], c.bmc.Parameters["username"], c.bmc.Parameters["ipmitool_timeout"]),
		},
	} {
		_, err := c.admin.CoreV1().ConfigMaps(c.namespace).Create(c.t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		require.NoError(c.t, err)
	}
	_, err := c.admin.CoreV1().Secrets(c.namespace).Create(c.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bmc"},
		StringData: map[string]string{"password": c.bmc.Parameters["password"]},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
}

func restricted() *corev1.SecurityContext {
	no, yes, uid := false, true, int64(65532)
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, RunAsUser: &uid,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// always is a leadership that does not end.
type always struct{}

func (always) Remaining() time.Duration { return time.Minute }
