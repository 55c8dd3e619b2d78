package fencing_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// newTrial returns a lab whose machine boots when it has power again, if the plug is its own,
// and which an admin has drained.
func newTrial(t *testing.T, own bool) *lab {
	t.Helper()
	machine := <-free
	t.Cleanup(func() { free <- machine })
	process := shared.Node(machine)
	var l *lab
	var mu sync.Mutex
	boots := 0
	boot := func() error { // the status has another boot ID before the node is Ready
		mu.Lock()
		defer mu.Unlock()
		boots++
		_, err := l.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), machine, types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"nodeInfo":{"bootID":"%s-%d"}}}`, l.namespace, boots), metav1.PatchOptions{},
			"status")
		return err
	}
	l = makeLab(t, machine, func(_ string, on bool) {
		switch {
		case !own:
		case !on:
			assert.NoError(t, process.Kill())
		default:
			assert.NoError(t, boot())
			assert.NoError(t, process.Restart())
		}
	})
	require.NoError(t, boot())
	t.Cleanup(func() {
		if t.Failed() {
			assert.NoError(t, process.Restart())
		}
		_, err := l.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), machine, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"unschedulable":null},"metadata":{"annotations":{%q:null,%q:null}}}`,
				v1alpha1.AnnotationCommission, v1alpha1.AnnotationCommissioned),
			metav1.PatchOptions{})
		assert.NoError(t, err)
	})
	l.patchNode(machine, `{"spec":{"unschedulable":true}}`)
	l.drain()
	return l
}

// drain takes away what other tests have left on the machine.
func (l *lab) drain() {
	l.t.Helper()
	l.eventually("the machine is drained", func() bool {
		pods, err := l.client.CoreV1().Pods("").List(l.t.Context(),
			metav1.ListOptions{FieldSelector: "spec.nodeName=" + l.machine})
		require.NoError(l.t, err)
		for _, p := range pods.Items {
			_ = l.client.CoreV1().Pods(p.Namespace).Delete(l.t.Context(), p.Name, *metav1.NewDeleteOptions(0))
		}
		return len(pods.Items) == 0
	})
}

func (l *lab) bootID() string { return l.getNode(l.machine).Status.NodeInfo.BootID }

// ask asks for a commission as an admin does.
func (l *lab) ask(more string) {
	l.t.Helper()
	l.patchNode(l.machine,
		fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCommission, l.bootID()+more))
}

// commission asks until it has begun: a fencer that has not seen the nodes' Leases renewed yet
// refuses.
func (l *lab) commission() {
	l.t.Helper()
	times := 0
	l.eventually("it has begun", func() bool {
		switch {
		case l.record() != nil:
			return true
		case l.getNode(l.machine).Annotations[v1alpha1.AnnotationCommission] == "":
			times++
			l.ask(fmt.Sprintf("/%d", times))
		}
		return false
	})
}

// said are the reasons of the Events of the machine's Node.
func (l *lab) said() (reasons []string) {
	l.t.Helper()
	n := l.getNode(l.machine)
	list, err := l.client.EventsV1().Events(metav1.NamespaceDefault).List(l.t.Context(), metav1.ListOptions{})
	require.NoError(l.t, err)
	for _, e := range list.Items {
		if e.Regarding.Kind == "Node" && e.Regarding.UID == n.UID && e.Action == "Commission" {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

func TestNodeIsCommissioned(t *testing.T) {
	t.Parallel()
	l := newTrial(t, true)
	p := l.start()
	l.checked()
	l.pod("left", l.machine)
	l.ask("")
	l.eventually("it is refused", func() bool {
		return l.getNode(l.machine).Annotations[v1alpha1.AnnotationCommission] == ""
	})
	require.Contains(t, l.log(p), l.world.namespace+"/left")
	l.world.forget("left")
	l.drain()
	assert.Nil(t, l.record())

	before := l.bootID()
	l.commission()
	l.reaches(v1alpha1.PhaseFinal)
	assert.Empty(t, l.record().Status.Commission.Failed)
	n := l.getNode(l.machine)
	assert.NotEqual(t, before, n.Status.NodeInfo.BootID)
	assert.Contains(t, n.Annotations[v1alpha1.AnnotationCommissioned], fmt.Sprintf("%q", before))
	assert.Contains(t, n.Annotations[v1alpha1.AnnotationCommissioned], fmt.Sprintf("%q", n.Status.NodeInfo.BootID))
	assert.NotContains(t, n.Annotations, v1alpha1.AnnotationCommission)
	assert.True(t, n.Spec.Unschedulable)
	assert.True(t, l.ready(l.machine))
	assert.Equal(t, 1, l.cuts())
	assert.Equal(t, 1, l.commands(agent.ActionOff))
	assert.True(t, l.rack.On(l.machine))
	l.eventually("Events say so", func() bool {
		said := strings.Join(l.said(), " ")
		return strings.Contains(said, "CommissionRefused") && strings.Contains(said, "CommissionBegun") &&
			strings.Contains(said, "Commissioned")
	})
	l.stop(p)
}

// The fencer is killed when the machine has just lost its power, and the next one brings the
// commission to its end.
func TestCommissionSurvivesItsFencer(t *testing.T) {
	t.Parallel()
	l := newTrial(t, true)
	dying := l.start("DIE_AFTER=switch off")
	l.checked()
	l.commission()
	l.requireKilled(dying)
	assert.Equal(t, 1, l.cuts())
	next := l.start()
	l.reaches(v1alpha1.PhaseFinal)
	assert.Empty(t, l.record().Status.Commission.Failed)
	assert.NotEmpty(t, l.getNode(l.machine).Annotations[v1alpha1.AnnotationCommissioned])
	assert.Equal(t, 1, l.commands(agent.ActionOff))
	assert.True(t, l.rack.On(l.machine))
	l.stop(next)
}

// The plug reads as it should, and feeds another machine: that has its power back, and the node is
// not proved.
func TestCommissionFindsAWrongPlug(t *testing.T) {
	t.Parallel()
	l := newTrial(t, false)
	p := l.start()
	l.checked()
	l.commission()
	l.reaches(v1alpha1.PhaseFinal)
	s := l.record().Status
	assert.Contains(t, s.Commission.Failed, "another machine's")
	assert.True(t, metaTrue(s.Conditions, v1alpha1.ConditionDeviceSuspect))
	assert.Empty(t, l.getNode(l.machine).Annotations[v1alpha1.AnnotationCommissioned])
	assert.Equal(t, 1, l.commands(agent.ActionOff))
	assert.True(t, l.rack.On(l.machine))
	for _, c := range l.getNode(l.machine).Status.Conditions {
		assert.False(t, c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue)
	}
	l.stop(p)
}

func metaTrue(conditions []metav1.Condition, kind string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}
