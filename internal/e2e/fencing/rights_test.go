package fencing_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// ruler is a leadership that lasts.
type ruler struct{}

func (ruler) Remaining() time.Duration { return time.Hour }

// plugs are a rack whose agent has the parameters of the configuration below.
type plugs struct{ *fencingtest.Rack }

func (plugs) Metadata(_ context.Context, name string) (agent.Metadata, error) {
	return agent.Metadata{Name: name, OffIsProof: true, Parameters: []agent.ParameterSpec{
		{Name: "ip", Type: agent.TypeString, Required: true}, {Name: "plug", Type: agent.TypeString, Required: true},
	}}, nil
}

// TestMissingRightsAreSaidTogether has a fencer lack a right that it needs now, and one that it needs
// when a node is lost. It says both at its start, and uses them when they are granted.
func TestMissingRightsAreSaidTogether(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		nodeFences(t)
		w := newWorld(t)
		user := "fencer-of-" + w.namespace
		rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
			return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
		}
		grant := func(namespace string, rules ...rbacv1.PolicyRule) {
			t.Helper()
			require.NoError(t, shared.Grant(t.Context(), user, namespace, rules...))
		}
		grant("", rule("", "nodes", "get", "list", "watch", "patch"),
			rule(v1alpha1.Group, "nodefences", "get", "list", "watch", "create", "update", "delete"),
			rule(v1alpha1.Group, "nodefences/status", "update"), rule("", "pods", "get", "list"),
			rule("", "pods/status", "patch"), rule(storagev1.GroupName, "volumeattachments", "list"))
		grant(corev1.NamespaceNodeLease, rule(coordinationv1.GroupName, "leases", "get", "list", "watch"))
		grant(w.namespace, rule("", "configmaps", "list", "watch"))

		node := w.node()
		t.Cleanup(func() {
			_ = w.client.CoreV1().Nodes().Delete(context.WithoutCancel(t.Context()), node.Name, metav1.DeleteOptions{})
		})
		w.patchNode(node.Name, `{"metadata":{"labels":{"test":"`+w.namespace+`"}}}`)
		w.patchNode(node.Name, `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "status")
		for name, data := range map[string]map[string]string{
			"fence-config-node-" + node.Name: {
				"config.properties": "node_name=" + node.Name + "\nisolation=mark-unschedulable\n" +
					"power_management=plug-off plug-on\nrecovery=mark-schedulable\n",
				"fence-method-plug-off": "template=fence-method-template-rack\nplug=p\naction=off\n",
				"fence-method-plug-on":  "template=fence-method-template-rack\nplug=p\naction=on\n",
			},
			"fence-method-template-rack": {"template.properties": "agent_name=fence_rack\nip=rack\n"},
		} {
			_, err := w.client.CoreV1().ConfigMaps(w.namespace).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		rack := fencingtest.NewRack(nil, "p")
		defer rack.Close()

		client, err := kubernetes.NewForConfig(shared.User(user))
		require.NoError(t, err)
		config := shared.User(user)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				return next.RoundTrip(ownRecord(r, node.Name))
			})
		})
		dyn, err := dynamic.NewForConfig(config)
		require.NoError(t, err)
		core, logs := observer.New(zap.InfoLevel)
		const condition = "FenceReadyForRights"
		c, err := fencing.New(client, dyn, fencing.Config{
			Namespace: w.namespace, OutsideCluster: true, Leadership: ruler{}, Agents: plugs{rack},
			CheckInterval: time.Second, Logger: zap.New(core),
			Nodes: api.NodeSelector{
				Selector: labels.SelectorFromSet(labels.Set{"test": w.namespace}), FenceReadyCondition: condition,
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		const message = "rights are missing: grant all of them"
		require.Eventually(t, func() bool { return logs.FilterMessage(message).Len() > 0 }, patience, poll)
		assert.Equal(t, `patch on resource nodes/status of API group "" by a ClusterRole; `+
			`delete on resource pods of API group "" by a ClusterRole`,
			logs.FilterMessage(message).All()[0].ContextMap()["grant"])

		grant("", rule("", "nodes/status", "patch"), rule("", "pods", "delete"))
		require.Eventually(t, func() bool {
			for _, of := range w.getNode(node.Name).Status.Conditions {
				if of.Type == condition {
					return true
				}
			}
			return false
		}, patience, poll, "its condition is written")
		require.Eventually(t, func() bool { return logs.FilterMessage("no right is missing any more").Len() == 1 },
			patience, poll)
		assert.Equal(t, 1, logs.FilterMessage(message).Len())
		cancel()
		require.NoError(t, <-ended)
	})
}
