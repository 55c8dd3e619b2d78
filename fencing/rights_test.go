package fencing_test

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
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// role is what the user of fake clientsets may do: everything but what it lacks.
type role struct {
	mu    sync.Mutex
	lacks map[string]bool // "<verb> <resource>"; guarded by mu
	asked int             // guarded by mu
}

func (r *role) lack(lacking ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lacks = map[string]bool{}
	for _, l := range lacking {
		r.lacks[l] = true
	}
}

func (r *role) denies(verb, resource, subresource string) bool {
	if subresource != "" {
		resource += "/" + subresource
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks[verb+" "+resource]
}

func (r *role) refuse(a clienttesting.Action) (bool, runtime.Object, error) {
	if !r.denies(a.GetVerb(), a.GetResource().Resource, a.GetSubresource()) {
		return false, nil, nil
	}
	return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "",
		fmt.Errorf("User %q cannot %s resource %q", "u", a.GetVerb(), a.GetResource().Resource))
}

func (r *role) review(a clienttesting.Action) (bool, runtime.Object, error) {
	review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
	of := review.Spec.ResourceAttributes
	review.Status.Allowed = !r.denies(of.Verb, of.Resource, of.Subresource)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return true, review, nil
}

func (r *role) reviews() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// guardedFencer is a controller for a healthy node n1 whose user has a role, and its log.
func guardedFencer(t *testing.T, r *role, settings string, change func(*fencing.Config)) (
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
	kube.PrependReactor("*", "*", r.refuse)
	dyn.PrependReactor("*", "*", r.refuse)
	kube.PrependReactor("create", "selfsubjectaccessreviews", r.review)
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

// granting are what a log says to grant, one for each line.
func granting(logs *observer.ObservedLogs) []string {
	var all []string
	for _, l := range logs.FilterMessage("rights are missing: grant all of them").All() {
		all = append(all, fmt.Sprint(l.ContextMap()["grant"]))
	}
	return all
}

const plain = "node_name=n1\nisolation=mark-unschedulable\npower_management=plug-off plug-on\n" +
	"recovery=mark-schedulable\n"

// What only a fence needs is missed before a node is lost.
func TestMissingRightsAreSaidBeforeANodeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &role{}
		r.lack("delete pods", "patch pods/status", "patch nodes/status",
			"delete nodes", "create pods/eviction", "get secrets", "patch events") // are not needed
		kube, c, logs := guardedFencer(t, r, plain, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Hour)
		want := []string{`patch on resource nodes/status of API group "" by a ClusterRole; ` +
			`delete on resource pods of API group "" by a ClusterRole; ` +
			`patch on resource pods/status of API group "" by a ClusterRole`}
		assert.Equal(t, want, granting(logs))
		n, err := kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Len(t, n.Status.Conditions, 1)

		r.lack()
		time.Sleep(10 * time.Minute)
		assert.Equal(t, 1, logs.FilterMessage("no right is missing any more").Len())
		n, err = kube.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Len(t, n.Status.Conditions, 2, "FenceReady")
		before := r.reviews()
		time.Sleep(time.Hour)
		assert.Equal(t, before, r.reviews())

		r.lack("get nodes") // some day
		time.Sleep(10 * time.Minute)
		assert.Len(t, granting(logs), 2)
		cancel()
		require.NoError(t, <-ended)
	})
}

// A controller asks once, and not for long.
func TestRightsAreAskedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &role{}
		_, c, logs := guardedFencer(t, r, plain, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		assert.Empty(t, granting(logs))
		assert.Equal(t, 23, r.reviews())
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestRightsThatTheConfigurationNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &role{}
		r.lack("create pods/eviction", "delete volumeattachments", "delete nodes", "get secrets", "create events",
			"get persistentvolumes")
		_, c, logs := guardedFencer(t, r, "node_name=n1\nisolation=mark-unschedulable detach-volumes\n"+
			"power_management=plug-off plug-on\nrecovery=mark-schedulable\n",
			func(c *fencing.Config) {
				c.Events = events.NewFakeRecorder(100)
				c.Storage = map[string]fencing.Storage{"port-off": {Drivers: []string{"d"}}}
			})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		assert.Equal(t, []string{`create on resource events of API group "events.k8s.io" in namespace default; ` +
			`create on resource pods/eviction of API group "" by a ClusterRole; ` +
			`delete on resource volumeattachments of API group "storage.k8s.io" by a ClusterRole; ` +
			`get on resource persistentvolumes of API group "" by a ClusterRole`}, granting(logs))
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
				r := &role{}
				r.lack("list nodes", "delete pods")
				_, c, logs := guardedFencer(t, r, plain, nil)
				assert.ErrorContains(t, run(t.Context(), c), "list Nodes")
				assert.Equal(t, []string{`list on resource nodes of API group "" by a ClusterRole; ` +
					`delete on resource pods of API group "" by a ClusterRole`}, granting(logs))
			})
		})
	}
}
