package fencing_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// deed is what somebody does in the middle of a fence.
type deed struct {
	name string
	do   func(*lab) // at the very moment, before the fencer knows that it has come so far
	then func(*lab) // a moment later
	vain bool       // the fence goes on as if nothing had been
}

var deeds = []deed{
	{name: "stops and holds", do: func(l *lab) { l.annotate(v1alpha1.AnnotationStop, "hold") }},
	{name: "stops and restores", do: func(l *lab) { l.annotate(v1alpha1.AnnotationStop, "restore") }},
	{
		name: "pauses", do: func(l *lab) { l.annotate(v1alpha1.AnnotationPaused, "true") }, vain: true,
		then: func(l *lab) {
			l.eventually("it is paused", func() bool {
				for _, c := range l.record().Status.Conditions {
					if c.Type == v1alpha1.ConditionPaused && c.Status == metav1.ConditionTrue {
						return true
					}
				}
				return l.ended()
			})
			before := l.commands(agent.ActionOff) + l.commands(agent.ActionOn)
			l.beats(3 * time.Second)
			require.Equal(l.t, before, l.commands(agent.ActionOff)+l.commands(agent.ActionOn), "during the pause")
			l.annotate(v1alpha1.AnnotationPaused, "false")
		},
	},
	{
		name: "confirms another incident", do: func(l *lab) { l.annotate(v1alpha1.AnnotationConfirmOff, "7") },
		vain: true,
	},
	{name: "restarts another incident", do: func(l *lab) { l.annotate(v1alpha1.AnnotationRestart, "7") }, vain: true},
	{name: "deletes the record", do: (*lab).deleteRecord},
	{
		name: "deletes the node", do: func(l *lab) {
			l.mu.Lock()
			l.gone = true
			l.mu.Unlock()
			l.deleteNode()
		},
		then: (*lab).requireDeletable,
	},
}

// deleteNode deletes the node as an admin does.
func (l *lab) deleteNode() {
	l.t.Helper()
	assert.NoError(l.t, l.client.CoreV1().Nodes().Delete(l.t.Context(), l.machine, metav1.DeleteOptions{}))
}

func (l *lab) deleteRecord() {
	l.t.Helper()
	err := l.fences.Delete(l.t.Context(), v1alpha1.Name(l.machine), metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		assert.NoError(l.t, err)
	}
}

// requireDeletable requires that the record can be deleted.
func (l *lab) requireDeletable() {
	l.t.Helper()
	l.eventually("the fence has ended", l.ended)
	l.deleteRecord()
	l.eventually("the record is gone", func() bool { return l.record() == nil })
}

// Whatever people do in whichever phase of a fence: no pod is freed whose machine may run, the
// machine loses its power once at most, the fence ends, and nothing happens afterwards. All
// combinations are tried when soaking, otherwise each deed and each phase.
func TestDeedsOfAdmins(t *testing.T) {
	t.Parallel()
	for i, phase := range []v1alpha1.Phase{
		v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated, v1alpha1.PhasePowering,
		v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring,
		v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering, v1alpha1.PhaseError, v1alpha1.PhaseGivenUp,
		v1alpha1.PhaseFinal,
	} {
		for n, deed := range deeds {
			if !soaking() && n != i%len(deeds) {
				continue
			}
			t.Run(string(phase)+"/"+deed.name, func(t *testing.T) {
				t.Parallel()
				newBootingLab(t).requireOrderAfter(phase, deed)
			})
		}
	}
}

// newBootingLab returns a lab with a node without a machine, which is Ready when its plug has been
// off and is on again.
func newBootingLab(t *testing.T) *lab {
	t.Helper()
	w := newWorld(t)
	l := makeLab(t, w.node().Name, nil)
	l.boots = true
	l.setReady(corev1.ConditionTrue)
	l.live()
	return l
}

// beat is what the kubelet of a restarted machine does.
func (l *lab) beat() {
	l.t.Helper()
	l.mu.Lock()
	works := l.boots && !l.gone && l.cuts() > l.offs
	l.mu.Unlock()
	if works && l.rack.On(l.machine) {
		l.setReady(corev1.ConditionTrue)
	}
}

// beats lets time pass.
func (l *lab) beats(d time.Duration) {
	l.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * poll) {
		l.beat()
	}
}

// requireOrderAfter has the machine be lost, and something be done when its fence has come to a
// phase.
func (l *lab) requireOrderAfter(phase v1alpha1.Phase, deed deed) {
	l.setting("boot_grace=1m", "boot_grace=5s")
	failing := phase == v1alpha1.PhaseError || phase == v1alpha1.PhaseGivenUp
	if failing {
		l.rack.Break(l.machine, fencingtest.Fault{Ignore: true, Fail: true})
		l.setting("boot_grace=5s", "boot_grace=5s\nretries=1\nrestarts=0")
	}
	reached := make(chan struct{})
	do := sync.OnceFunc(func() {
		deed.do(l)
		close(reached)
	})
	l.control(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		body, err := bodyOf(r)
		if err != nil {
			return nil, err
		}
		answer, err := next.RoundTrip(r)
		if r.Method == http.MethodPut && strings.Contains(body, `"phase":"`+string(phase)+`"`) && err == nil &&
			answer.StatusCode == http.StatusOK {
			do()
		}
		return answer, err
	})
	l.pod("by-hand", l.machine)
	l.lose()
	l.eventually("the fence is "+string(phase), func() bool {
		l.beat()
		select {
		case <-reached:
			return true
		default:
			return false
		}
	})
	if deed.then != nil {
		deed.then(l)
	}
	l.eventually("the fence has ended", func() bool {
		l.beat()
		return l.ended()
	})
	before := l.rack.Events()
	l.beats(2 * time.Second)
	require.Equal(l.t, before, l.rack.Events(), "after the end")
	l.requireNoBreach()
	if !failing {
		assert.LessOrEqual(l.t, l.commands(agent.ActionOff), 1, "%+v", before)
	}
	if deed.vain && !failing {
		assert.Equal(l.t, v1alpha1.PhaseFinal, l.phase())
		assert.Equal(l.t, 1, l.cuts())
		assert.True(l.t, l.rack.On(l.machine))
		assert.Nil(l.t, l.find("by-hand"))
	}
	if !l.isGone() {
		assert.Empty(l.t, l.outOfService(l.machine))
	}
}

// ended says that nothing more is to happen. A lost node whose record was deleted gets another.
func (l *lab) ended() bool {
	switch l.phase() {
	case v1alpha1.PhaseFinal, v1alpha1.PhaseGivenUp:
		return true
	case "":
		return l.isGone() || l.ready(l.machine)
	}
	return false
}

func (l *lab) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}
