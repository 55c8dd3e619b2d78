package nodestate_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// remote is the time by the clocks of nodes and API servers: nothing may depend on it.
var remote = time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)

// cluster has one process watch nodes, by a clock that its test moves on.
type cluster struct {
	*nodestate.Nodes
	t       *testing.T
	now     time.Time
	version int
}

func newCluster(t *testing.T, c api.NodeSelector) *cluster {
	nodes, err := nodestate.New(c)
	require.NoError(t, err)
	return &cluster{Nodes: nodes, t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), version: 99}
}

func (c *cluster) pass(d time.Duration) { c.now = c.now.Add(d) }

func (c *cluster) next() string {
	c.version++
	return strconv.Itoa(c.version)
}

// node is a Node in a new version, with Ready as given.
func (c *cluster) node(uid string, ready corev1.ConditionStatus, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w0", UID: types.UID(uid), ResourceVersion: c.next()},
		Status: corev1.NodeStatus{
			Conditions: append([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}, conditions...),
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-1"},
		},
	}
}

// lease is a Lease in a new version, renewed at the given second.
func (c *cluster) lease(uid string, second int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-node-lease", Name: "w0", UID: types.UID(uid),
			ResourceVersion: c.next(),
		},
		Spec: coordinationv1.LeaseSpec{
			RenewTime: &metav1.MicroTime{Time: remote.Add(time.Duration(second) * time.Second)},
		},
	}
}

func (c *cluster) see(objects ...metav1.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			c.Node(o, c.now)
		case *coordinationv1.Lease:
			c.Lease(o, c.now)
		}
	}
}

func (c *cluster) facts() policy.NodeFacts {
	c.t.Helper()
	all := c.Facts(c.now)
	require.Len(c.t, all, 1)
	return all[0]
}

func ownedBy(l *coordinationv1.Lease, uid string) *coordinationv1.Lease {
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: l.Name, UID: types.UID(uid)}}
	return l
}

func condition(kind string, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: status}
}

func TestFacts(t *testing.T) {
	c := newCluster(t, api.NodeSelector{
		Selector:    labels.SelectorFromSet(labels.Set{"fence": "yes"}),
		StorageLost: api.NodeCondition{Type: "StorageLost", Status: corev1.ConditionTrue},
	})
	n := c.node("u", corev1.ConditionTrue)
	c.see(n)
	assert.Equal(t,
		policy.NodeFacts{
			Name: "w0", UID: "u", EverReady: policy.True, Ready: policy.True,
			LeaseSilentFor: policy.NotSeen,
		}, c.facts())

	n = c.node("u", corev1.ConditionUnknown, condition("FenceReady", corev1.ConditionFalse),
		condition("StorageLost", corev1.ConditionTrue))
	n.Labels = map[string]string{
		"topology.kubernetes.io/zone": "a", "node-role.kubernetes.io/control-plane": "", "fence": "yes",
		"fencing.bellwether.dev/exclude": "",
	}
	n.Spec.Taints = []corev1.Taint{{
		Key: "ToBeDeletedByClusterAutoscaler", Value: "1",
		Effect: corev1.TaintEffectNoSchedule,
	}}
	n.DeletionTimestamp = &metav1.Time{Time: remote}
	n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = "4c4c", "5d1b"
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "w0"},
		{Type: corev1.NodeInternalIP, Address: "10.0.0.7"},
		{Type: corev1.NodeExternalIP, Address: "192.0.2.7"},
	}
	c.see(n)
	c.pass(time.Minute)
	assert.Equal(t, policy.NodeFacts{
		Machine: policy.Machine{SystemUUID: "4c4c", ID: "5d1b", Addresses: []string{"10.0.0.7", "192.0.2.7"}},
		Name:    "w0", UID: "u", Zone: "a", ControlPlane: true, Selected: true, Excluded: true, Deleting: true,
		AutoscalerTaint: true,
		EverReady:       policy.True, Ready: policy.Unknown, NotReadyFor: time.Minute, FailingFor: time.Minute,
		LeaseSilentFor: policy.NotSeen,
		FenceReady:     policy.False, StorageLost: true,
	}, c.facts())

	n = c.node("u", corev1.ConditionTrue)
	n.Labels = map[string]string{"fencing.bellwether.dev/exclude": "false"}
	n.Status.Conditions = nil
	c.see(n)
	assert.False(t, c.facts().Excluded)
	assert.Equal(t, policy.Missing, c.facts().Ready)
	assert.Equal(t, time.Minute, c.facts().NotReadyFor, "nor is it Ready without any")
}

func TestNodesAreSortedByName(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	for _, name := range []string{"b", "c", "a"} {
		n := c.node(name, corev1.ConditionTrue)
		n.Name = name
		c.see(n)
	}
	var names []string
	for _, n := range c.Facts(c.now) {
		names = append(names, n.Name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
}

func TestNotReadyFor(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	c.see(c.node("u", corev1.ConditionTrue))
	c.pass(time.Minute)
	assert.Zero(t, c.facts().NotReadyFor)
	assert.Zero(t, c.facts().FailingFor)

	c.see(c.node("u", corev1.ConditionFalse))
	c.pass(10 * time.Second)
	c.see(c.node("u", corev1.ConditionUnknown)) // the kubelet has ended altogether
	c.pass(10 * time.Second)
	c.see(c.node("u", corev1.ConditionUnknown))
	assert.Equal(t, 20*time.Second, c.facts().NotReadyFor)
	assert.Equal(t, 20*time.Second, c.facts().FailingFor)

	c.see(c.node("u", corev1.ConditionTrue))
	assert.Zero(t, c.facts().NotReadyFor)
	c.see(c.node("u", corev1.ConditionFalse))
	c.pass(time.Second)
	assert.Equal(t, time.Second, c.facts().NotReadyFor)
}

func TestNodeThatWasReadyInBetweenStartsAgain(t *testing.T) {
	changed := func(n *corev1.Node, second int) *corev1.Node {
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(remote.Add(time.Duration(second) * time.Second))
		return n
	}
	c := newCluster(t, api.NodeSelector{})
	c.see(changed(c.node("u", corev1.ConditionFalse), 1))
	c.pass(time.Minute)
	c.see(changed(c.node("u", corev1.ConditionFalse), 1))
	assert.Equal(t, time.Minute, c.facts().NotReadyFor)
	c.see(changed(c.node("u", corev1.ConditionFalse), 50)) // it changed, and back, and only that is seen
	c.pass(time.Second)
	assert.Equal(t, time.Second, c.facts().NotReadyFor)
	c.see(changed(c.node("u", corev1.ConditionUnknown), 60))
	c.pass(time.Second)
	assert.Equal(t, 2*time.Second, c.facts().NotReadyFor)

	rebooted := changed(c.node("u", corev1.ConditionUnknown), 60)
	rebooted.Status.NodeInfo.BootID = "boot-2"
	c.see(rebooted)
	c.pass(time.Second)
	assert.Equal(t, time.Second, c.facts().NotReadyFor)
	silent := changed(c.node("u", corev1.ConditionUnknown), 60)
	silent.Status.NodeInfo.BootID = ""
	c.see(silent)
	c.pass(time.Second)
	assert.Equal(t, 2*time.Second, c.facts().NotReadyFor)
}

func TestOtherTriggers(t *testing.T) {
	deadlock := api.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue}
	c := newCluster(t,
		api.NodeSelector{Triggers: []api.NodeCondition{deadlock, {Type: "DiskSound", Status: corev1.ConditionFalse}}})
	c.see(c.node("u", corev1.ConditionTrue, condition("KernelDeadlock", corev1.ConditionFalse),
		condition("DiskSound", corev1.ConditionTrue)))
	c.pass(time.Minute)
	assert.Zero(t, c.facts().FailingFor)
	assert.Empty(t, c.Failing("w0", "u", c.now))

	c.see(c.node("u", corev1.ConditionTrue, condition("KernelDeadlock", corev1.ConditionTrue)))
	c.pass(time.Minute)
	c.see(c.node("u", corev1.ConditionFalse, condition("KernelDeadlock", corev1.ConditionTrue)))
	c.pass(time.Minute)
	assert.Equal(t, 2*time.Minute, c.facts().FailingFor)
	assert.Equal(t, time.Minute, c.facts().NotReadyFor)
	assert.Equal(t, map[api.NodeCondition]time.Duration{deadlock: 2 * time.Minute, {Type: "Ready"}: time.Minute},
		c.Failing("w0", "u", c.now))
	assert.Nil(t, c.Failing("w0", "another", c.now))

	c.see(c.node("u", corev1.ConditionFalse, condition("KernelDeadlock", corev1.ConditionUnknown)))
	assert.Equal(t, time.Minute, c.facts().FailingFor)
}

func TestEverReady(t *testing.T) {
	t.Run("a node that was there before, and is not Ready", func(t *testing.T) {
		c := newCluster(t, api.NodeSelector{})
		c.see(c.node("u", corev1.ConditionUnknown))
		c.Synced()
		assert.Equal(t, policy.Unknown, c.facts().EverReady)
		c.see(c.node("u", corev1.ConditionTrue))
		c.see(c.node("u", corev1.ConditionUnknown))
		assert.Equal(t, policy.True, c.facts().EverReady)
	})
	t.Run("a node that was there before, and was checked", func(t *testing.T) {
		c := newCluster(t, api.NodeSelector{FenceReadyCondition: "example.com/FenceReady"})
		c.see(c.node("u", corev1.ConditionUnknown, condition("example.com/FenceReady", corev1.ConditionUnknown)))
		assert.Equal(t, policy.True, c.facts().EverReady)
	})
	t.Run("a node that joins", func(t *testing.T) {
		c := newCluster(t, api.NodeSelector{})
		c.Synced()
		c.see(c.node("u", corev1.ConditionFalse))
		c.see(c.node("u", corev1.ConditionUnknown))
		assert.Equal(t, policy.False, c.facts().EverReady)
		c.see(c.node("u", corev1.ConditionTrue))
		assert.Equal(t, policy.True, c.facts().EverReady)
	})
	t.Run("another one of the name", func(t *testing.T) {
		c := newCluster(t, api.NodeSelector{})
		c.Synced()
		c.see(c.node("u", corev1.ConditionTrue))
		c.see(c.node("v", corev1.ConditionFalse))
		assert.Equal(t, policy.False, c.facts().EverReady)
	})
}

func TestLeaseSilentFor(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	c.see(c.node("u", corev1.ConditionTrue), c.lease("l", 10))
	c.Synced()
	c.pass(time.Second)
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor, "it may have been as it is for years")

	c.see(c.lease("l", 20))
	assert.Zero(t, c.facts().LeaseSilentFor)
	c.pass(time.Minute)
	assert.Equal(t, time.Minute, c.facts().LeaseSilentFor)
	touched := c.lease("l", 20)
	touched.Annotations = map[string]string{"edited": "by hand"}
	c.see(touched)
	assert.Equal(t, time.Minute, c.facts().LeaseSilentFor, "it was not renewed")
	emptied := c.lease("l", 0)
	emptied.Spec.RenewTime = nil
	c.see(emptied, c.lease("l", 20))
	assert.Equal(t, time.Minute, c.facts().LeaseSilentFor, "nor now")
	c.see(c.lease("l", -3600))
	assert.Zero(t, c.facts().LeaseSilentFor, "its clock was set back, which is none of our business")
}

func TestLeaseThatIsNewIsRenewed(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	c.Synced()
	c.see(c.node("u", corev1.ConditionFalse))
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor)
	c.see(c.lease("l", 1))
	assert.Zero(t, c.facts().LeaseSilentFor)
}

func TestWatchThatIsSetBackRenewsNothing(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	oldNode, old, newer, last := c.node("u", corev1.ConditionTrue), c.lease("l", 1), c.lease("l", 2), c.lease("l", 3)
	c.see(old, newer, c.node("u", corev1.ConditionFalse))
	c.Synced()
	c.pass(time.Minute)
	c.see(oldNode, old, newer)
	assert.Equal(t, time.Minute, c.facts().LeaseSilentFor)
	assert.Equal(t, time.Minute, c.facts().NotReadyFor)

	c.LeaseGone("w0", "l")
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor)
	c.see(old, newer, last)
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor, "it is not there again, even as it was not seen before")
	c.see(c.lease("m", 3))
	assert.Zero(t, c.facts().LeaseSilentFor)
	c.see(newer)
	c.LeaseGone("w0", "l")
	assert.Zero(t, c.facts().LeaseSilentFor)
}

func TestLeasesOfOthersAreNoSign(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	c.see(c.node("u", corev1.ConditionTrue))
	elsewhere := c.lease("l", 1)
	elsewhere.Namespace = "default"
	c.Synced()
	c.see(elsewhere)
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor)
	c.see(ownedBy(c.lease("l", 2), "earlier"))
	assert.Equal(t, policy.NotSeen, c.facts().LeaseSilentFor)
	c.see(ownedBy(c.lease("m", 3), "u"))
	assert.Zero(t, c.facts().LeaseSilentFor)
}

func TestNodeOfTheSameNameIsAnotherOne(t *testing.T) {
	for name, announced := range map[string]bool{"its end was seen": true, "its end was not seen": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, api.NodeSelector{})
			before := c.node("u", corev1.ConditionUnknown)
			c.see(before, c.lease("l", 1))
			c.Synced()
			c.see(c.lease("l", 2))
			c.pass(time.Hour)
			gone := c.node("u", corev1.ConditionUnknown)
			if announced {
				c.NodeGone("w0", "u")
				assert.Empty(t, c.Facts(c.now))
			}
			c.see(c.node("v", corev1.ConditionFalse))
			if !announced {
				c.see(gone)
				c.NodeGone("w0", "u")
			}
			f := c.facts()
			assert.Equal(t, "v", f.UID)
			assert.Equal(t, time.Duration(1), f.NotReadyFor)
			assert.Equal(t, policy.False, f.EverReady)
			assert.Equal(t, policy.NotSeen, f.LeaseSilentFor)
			c.see(c.lease("l", 3))
			assert.Zero(t, c.facts().LeaseSilentFor)
		})
	}
}

func TestLeaseThatComesBeforeItsNode(t *testing.T) {
	c := newCluster(t, api.NodeSelector{})
	c.see(c.lease("l", 1))
	c.Synced()
	c.see(c.lease("l", 2))
	c.pass(time.Second)
	c.see(c.node("u", corev1.ConditionTrue))
	assert.Equal(t, time.Second, c.facts().LeaseSilentFor)
	c.NodeGone("w0", "u")
	c.LeaseGone("w0", "l")
	assert.Empty(t, c.Facts(c.now))
}

func TestWithoutVersions(t *testing.T) {
	// As with fake clientsets: then everything that arrives is new.
	c := newCluster(t, api.NodeSelector{})
	n, l, m := c.node("u", corev1.ConditionTrue), c.lease("l", 1), c.lease("l", 2)
	n.ResourceVersion, l.ResourceVersion, m.ResourceVersion = "", "", ""
	c.see(n, l, m)
	assert.Zero(t, c.facts().LeaseSilentFor)
}

func TestInvalidConfig(t *testing.T) {
	_, err := nodestate.New(api.NodeSelector{
		ExcludeLabel: "a b", AutoscalerTaints: []string{""}, FenceReadyCondition: "-",
		Triggers: []api.NodeCondition{
			{Type: "Ready", Status: corev1.ConditionFalse},
			{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
			{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
			{Type: "Other", Status: "true"},
		},
		StorageLost: api.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
	})
	for _, message := range []string{
		`fencing: Nodes.ExcludeLabel: name part must consist of`, `(got "a b")`,
		`fencing: Nodes.AutoscalerTaints[0]: name part must be non-empty`,
		`fencing: Nodes.Triggers[0]: must be another condition, as Ready is one anyway (got Ready=False)`,
		`fencing: Nodes.Triggers[2]: must be there once (got KernelDeadlock=True)`,
		`fencing: Nodes.Triggers[3].Status: must be True, False or Unknown (got "true")`,
		`fencing: Nodes.StorageLost: must not be a trigger, as nothing would be fenced for it (got ` +
			`KernelDeadlock=True)`,
		`fencing: Nodes.FenceReadyCondition: name part must consist of`,
	} {
		assert.ErrorContains(t, err, message)
	}
}
