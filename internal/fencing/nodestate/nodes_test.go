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

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// remote is the time by the clocks of nodes and API servers: nothing may depend on it.
var remote = time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC)

// scene has one process watch nodes, by a clock that its test moves on.
type scene struct {
	*nodestate.Nodes
	t       *testing.T
	now     time.Time
	version int
}

func newScene(t *testing.T, c nodestate.Config) *scene {
	nodes, err := nodestate.New(c)
	require.NoError(t, err)
	return &scene{Nodes: nodes, t: t, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), version: 99}
}

func (s *scene) pass(d time.Duration) { s.now = s.now.Add(d) }

func (s *scene) next() string {
	s.version++
	return strconv.Itoa(s.version)
}

// node is a Node in a new version, with Ready as given.
func (s *scene) node(uid string, ready corev1.ConditionStatus, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w0", UID: types.UID(uid), ResourceVersion: s.next()},
		Status: corev1.NodeStatus{
			Conditions: append([]corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}, conditions...),
			NodeInfo:   corev1.NodeSystemInfo{BootID: "boot-1"},
		},
	}
}

// lease is a Lease in a new version, renewed at the given second.
func (s *scene) lease(uid string, second int) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-node-lease", Name: "w0", UID: types.UID(uid),
			ResourceVersion: s.next(),
		},
		Spec: coordinationv1.LeaseSpec{
			RenewTime: &metav1.MicroTime{Time: remote.Add(time.Duration(second) * time.Second)},
		},
	}
}

func (s *scene) see(objects ...metav1.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			s.Node(o, s.now)
		case *coordinationv1.Lease:
			s.Lease(o, s.now)
		}
	}
}

func (s *scene) facts() policy.NodeFacts {
	s.t.Helper()
	all := s.Facts(s.now)
	require.Len(s.t, all, 1)
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
	s := newScene(t, nodestate.Config{
		Selector:    labels.SelectorFromSet(labels.Set{"fence": "yes"}),
		StorageLost: nodestate.Condition{Type: "StorageLost", Status: corev1.ConditionTrue},
	})
	n := s.node("u", corev1.ConditionTrue)
	s.see(n)
	assert.Equal(t,
		policy.NodeFacts{
			Name: "w0", UID: "u", EverReady: policy.True, Ready: policy.True,
			LeaseSilentFor: policy.NotSeen,
		}, s.facts())

	n = s.node("u", corev1.ConditionUnknown, condition("FenceReady", corev1.ConditionFalse),
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
	s.see(n)
	s.pass(time.Minute)
	assert.Equal(t, policy.NodeFacts{
		Machine: policy.Machine{SystemUUID: "4c4c", ID: "5d1b", Addresses: []string{"10.0.0.7", "192.0.2.7"}},
		Name:    "w0", UID: "u", Zone: "a", ControlPlane: true, Selected: true, Excluded: true, Deleting: true,
		AutoscalerTaint: true,
		EverReady:       policy.True, Ready: policy.Unknown, NotReadyFor: time.Minute, FailingFor: time.Minute,
		LeaseSilentFor: policy.NotSeen,
		FenceReady:     policy.False, StorageLost: true,
	}, s.facts())

	n = s.node("u", corev1.ConditionTrue)
	n.Labels = map[string]string{"fencing.bellwether.dev/exclude": "false"}
	n.Status.Conditions = nil
	s.see(n)
	assert.False(t, s.facts().Excluded)
	assert.Equal(t, policy.Missing, s.facts().Ready)
	assert.Equal(t, time.Minute, s.facts().NotReadyFor, "nor is it Ready without any")
}

func TestNodesAreSortedByName(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	for _, name := range []string{"b", "c", "a"} {
		n := s.node(name, corev1.ConditionTrue)
		n.Name = name
		s.see(n)
	}
	var names []string
	for _, n := range s.Facts(s.now) {
		names = append(names, n.Name)
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
}

func TestNotReadyFor(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	s.see(s.node("u", corev1.ConditionTrue))
	s.pass(time.Minute)
	assert.Zero(t, s.facts().NotReadyFor)
	assert.Zero(t, s.facts().FailingFor)

	s.see(s.node("u", corev1.ConditionFalse))
	s.pass(10 * time.Second)
	s.see(s.node("u", corev1.ConditionUnknown)) // the kubelet has ended altogether
	s.pass(10 * time.Second)
	s.see(s.node("u", corev1.ConditionUnknown))
	assert.Equal(t, 20*time.Second, s.facts().NotReadyFor)
	assert.Equal(t, 20*time.Second, s.facts().FailingFor)

	s.see(s.node("u", corev1.ConditionTrue))
	assert.Zero(t, s.facts().NotReadyFor)
	s.see(s.node("u", corev1.ConditionFalse))
	s.pass(time.Second)
	assert.Equal(t, time.Second, s.facts().NotReadyFor)
}

func TestNodeThatWasReadyInBetweenStartsAgain(t *testing.T) {
	changed := func(n *corev1.Node, second int) *corev1.Node {
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(remote.Add(time.Duration(second) * time.Second))
		return n
	}
	s := newScene(t, nodestate.Config{})
	s.see(changed(s.node("u", corev1.ConditionFalse), 1))
	s.pass(time.Minute)
	s.see(changed(s.node("u", corev1.ConditionFalse), 1))
	assert.Equal(t, time.Minute, s.facts().NotReadyFor)
	s.see(changed(s.node("u", corev1.ConditionFalse), 50)) // it changed, and back, and only that is seen
	s.pass(time.Second)
	assert.Equal(t, time.Second, s.facts().NotReadyFor)
	s.see(changed(s.node("u", corev1.ConditionUnknown), 60))
	s.pass(time.Second)
	assert.Equal(t, 2*time.Second, s.facts().NotReadyFor)

	rebooted := changed(s.node("u", corev1.ConditionUnknown), 60)
	rebooted.Status.NodeInfo.BootID = "boot-2"
	s.see(rebooted)
	s.pass(time.Second)
	assert.Equal(t, time.Second, s.facts().NotReadyFor)
	silent := changed(s.node("u", corev1.ConditionUnknown), 60)
	silent.Status.NodeInfo.BootID = ""
	s.see(silent)
	s.pass(time.Second)
	assert.Equal(t, 2*time.Second, s.facts().NotReadyFor)
}

func TestOtherTriggers(t *testing.T) {
	deadlock := nodestate.Condition{Type: "KernelDeadlock", Status: corev1.ConditionTrue}
	s := newScene(t,
		nodestate.Config{Triggers: []nodestate.Condition{deadlock, {Type: "DiskSound", Status: corev1.ConditionFalse}}})
	s.see(s.node("u", corev1.ConditionTrue, condition("KernelDeadlock", corev1.ConditionFalse),
		condition("DiskSound", corev1.ConditionTrue)))
	s.pass(time.Minute)
	assert.Zero(t, s.facts().FailingFor)
	assert.Empty(t, s.Failing("w0", "u", s.now))

	s.see(s.node("u", corev1.ConditionTrue, condition("KernelDeadlock", corev1.ConditionTrue)))
	s.pass(time.Minute)
	s.see(s.node("u", corev1.ConditionFalse, condition("KernelDeadlock", corev1.ConditionTrue)))
	s.pass(time.Minute)
	assert.Equal(t, 2*time.Minute, s.facts().FailingFor)
	assert.Equal(t, time.Minute, s.facts().NotReadyFor)
	assert.Equal(t, map[nodestate.Condition]time.Duration{deadlock: 2 * time.Minute, {Type: "Ready"}: time.Minute},
		s.Failing("w0", "u", s.now))
	assert.Nil(t, s.Failing("w0", "another", s.now))

	s.see(s.node("u", corev1.ConditionFalse, condition("KernelDeadlock", corev1.ConditionUnknown)))
	assert.Equal(t, time.Minute, s.facts().FailingFor)
}

func TestEverReady(t *testing.T) {
	t.Run("a node that was there before, and is not Ready", func(t *testing.T) {
		s := newScene(t, nodestate.Config{})
		s.see(s.node("u", corev1.ConditionUnknown))
		s.Synced()
		assert.Equal(t, policy.Unknown, s.facts().EverReady)
		s.see(s.node("u", corev1.ConditionTrue))
		s.see(s.node("u", corev1.ConditionUnknown))
		assert.Equal(t, policy.True, s.facts().EverReady)
	})
	t.Run("a node that was there before, and was checked", func(t *testing.T) {
		s := newScene(t, nodestate.Config{FenceReadyCondition: "example.com/FenceReady"})
		s.see(s.node("u", corev1.ConditionUnknown, condition("example.com/FenceReady", corev1.ConditionUnknown)))
		assert.Equal(t, policy.True, s.facts().EverReady)
	})
	t.Run("a node that joins", func(t *testing.T) {
		s := newScene(t, nodestate.Config{})
		s.Synced()
		s.see(s.node("u", corev1.ConditionFalse))
		s.see(s.node("u", corev1.ConditionUnknown))
		assert.Equal(t, policy.False, s.facts().EverReady)
		s.see(s.node("u", corev1.ConditionTrue))
		assert.Equal(t, policy.True, s.facts().EverReady)
	})
	t.Run("another one of the name", func(t *testing.T) {
		s := newScene(t, nodestate.Config{})
		s.Synced()
		s.see(s.node("u", corev1.ConditionTrue))
		s.see(s.node("v", corev1.ConditionFalse))
		assert.Equal(t, policy.False, s.facts().EverReady)
	})
}

func TestLeaseSilentFor(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	s.see(s.node("u", corev1.ConditionTrue), s.lease("l", 10))
	s.Synced()
	s.pass(time.Second)
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor, "it may have been as it is for years")

	s.see(s.lease("l", 20))
	assert.Zero(t, s.facts().LeaseSilentFor)
	s.pass(time.Minute)
	assert.Equal(t, time.Minute, s.facts().LeaseSilentFor)
	touched := s.lease("l", 20)
	touched.Annotations = map[string]string{"edited": "by hand"}
	s.see(touched)
	assert.Equal(t, time.Minute, s.facts().LeaseSilentFor, "it was not renewed")
	emptied := s.lease("l", 0)
	emptied.Spec.RenewTime = nil
	s.see(emptied, s.lease("l", 20))
	assert.Equal(t, time.Minute, s.facts().LeaseSilentFor, "nor now")
	s.see(s.lease("l", -3600))
	assert.Zero(t, s.facts().LeaseSilentFor, "its clock was set back, which is none of our business")
}

func TestLeaseThatIsNewIsRenewed(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	s.Synced()
	s.see(s.node("u", corev1.ConditionFalse))
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor)
	s.see(s.lease("l", 1))
	assert.Zero(t, s.facts().LeaseSilentFor)
}

func TestWatchThatIsSetBackRenewsNothing(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	oldNode, old, newer, last := s.node("u", corev1.ConditionTrue), s.lease("l", 1), s.lease("l", 2), s.lease("l", 3)
	s.see(old, newer, s.node("u", corev1.ConditionFalse))
	s.Synced()
	s.pass(time.Minute)
	s.see(oldNode, old, newer)
	assert.Equal(t, time.Minute, s.facts().LeaseSilentFor)
	assert.Equal(t, time.Minute, s.facts().NotReadyFor)

	s.LeaseGone("w0", "l")
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor)
	s.see(old, newer, last)
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor, "it is not there again, even as it was not seen before")
	s.see(s.lease("m", 3))
	assert.Zero(t, s.facts().LeaseSilentFor)
	s.see(newer)
	s.LeaseGone("w0", "l")
	assert.Zero(t, s.facts().LeaseSilentFor)
}

func TestLeasesOfOthersAreNoSign(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	s.see(s.node("u", corev1.ConditionTrue))
	elsewhere := s.lease("l", 1)
	elsewhere.Namespace = "default"
	s.Synced()
	s.see(elsewhere)
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor)
	s.see(ownedBy(s.lease("l", 2), "earlier"))
	assert.Equal(t, policy.NotSeen, s.facts().LeaseSilentFor)
	s.see(ownedBy(s.lease("m", 3), "u"))
	assert.Zero(t, s.facts().LeaseSilentFor)
}

func TestNodeOfTheSameNameIsAnotherOne(t *testing.T) {
	for name, announced := range map[string]bool{"its end was seen": true, "its end was not seen": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nodestate.Config{})
			before := s.node("u", corev1.ConditionUnknown)
			s.see(before, s.lease("l", 1))
			s.Synced()
			s.see(s.lease("l", 2))
			s.pass(time.Hour)
			gone := s.node("u", corev1.ConditionUnknown)
			if announced {
				s.NodeGone("w0", "u")
				assert.Empty(t, s.Facts(s.now))
			}
			s.see(s.node("v", corev1.ConditionFalse))
			if !announced {
				s.see(gone)
				s.NodeGone("w0", "u")
			}
			f := s.facts()
			assert.Equal(t, "v", f.UID)
			assert.Equal(t, time.Duration(1), f.NotReadyFor)
			assert.Equal(t, policy.False, f.EverReady)
			assert.Equal(t, policy.NotSeen, f.LeaseSilentFor)
			s.see(s.lease("l", 3))
			assert.Zero(t, s.facts().LeaseSilentFor)
		})
	}
}

func TestLeaseThatComesBeforeItsNode(t *testing.T) {
	s := newScene(t, nodestate.Config{})
	s.see(s.lease("l", 1))
	s.Synced()
	s.see(s.lease("l", 2))
	s.pass(time.Second)
	s.see(s.node("u", corev1.ConditionTrue))
	assert.Equal(t, time.Second, s.facts().LeaseSilentFor)
	s.NodeGone("w0", "u")
	s.LeaseGone("w0", "l")
	assert.Empty(t, s.Facts(s.now))
}

func TestWithoutVersions(t *testing.T) {
	// As with fake clientsets: then everything that arrives is new.
	s := newScene(t, nodestate.Config{})
	n, l, m := s.node("u", corev1.ConditionTrue), s.lease("l", 1), s.lease("l", 2)
	n.ResourceVersion, l.ResourceVersion, m.ResourceVersion = "", "", ""
	s.see(n, l, m)
	assert.Zero(t, s.facts().LeaseSilentFor)
}

func TestInvalidConfig(t *testing.T) {
	_, err := nodestate.New(nodestate.Config{
		ExcludeLabel: "a b", AutoscalerTaints: []string{""}, FenceReadyCondition: "-",
		Triggers: []nodestate.Condition{
			{Type: "Ready", Status: corev1.ConditionFalse},
			{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
			{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
			{Type: "Other", Status: "true"},
		},
		StorageLost: nodestate.Condition{Type: "KernelDeadlock", Status: corev1.ConditionTrue},
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
