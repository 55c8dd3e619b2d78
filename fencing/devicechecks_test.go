package fencing_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// recorder keeps the Events that are about Nodes.
type recorder struct {
	mu   sync.Mutex
	said []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	n, ok := regarding.(*corev1.Node)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	kind := n.GroupVersionKind()
	r.said = append(r.said,
		fmt.Sprintf("%s %s with UID %v: %s %s %s: %s", kind.Kind, n.Name, n.UID != "", eventType, reason, action,
			fmt.Sprintf(note, args...)))
}

// take returns what was said since it was asked last, up to all that follows from what has happened.
func (r *recorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	said := r.said
	r.said = nil
	return said
}

func TestChangesOfReadinessAreEvents(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &recorder{}
		var mu sync.Mutex
		var told []string
		change := func(c *fencing.Config) {
			c.Events, c.CheckInterval = r, time.Minute
			c.Hooks.OnFenceReady = func(node string, err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprintf("%s: %v", node, err))
			}
		}
		a := w.start("a", change)
		wait(w.ctx, settled)
		assert.Empty(t, r.take(), "that everything is as it should be is no news")

		w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
		wait(w.ctx, 10*time.Minute)
		broken := "Node n1 with UID true: Warning NotFenceable Check: device fence_rack/rack/n1: plug n1: no answer"
		assert.Equal(t, []string{broken}, r.take(), "once, however often it is checked")

		a.stop()
		a = w.start("a", change)
		wait(w.ctx, 10*time.Minute)
		assert.Empty(t, r.take(), "what the node says already is no news to who comes later")

		// Another reason is in the condition, and is not said again: reasons of one outage come and
		// go.
		_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker", types.MergePatchType,
			[]byte(`{"data":{"fence-method-plug-off":"template=absent"}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		wait(w.ctx, 10*time.Minute)
		for _, said := range r.take() {
			assert.Contains(t, said, "Warning NotFenceable Check: ")
			assert.Contains(t, said, "absent")
			assert.NotContains(t, said, "Node n1 ")
		}
		a.stop()

		w.rack.Break("n1", fencingtest.Fault{})
		_, err = w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker", types.MergePatchType,
			[]byte(
				`{"data":{"fence-method-plug-off":"template=fence-method-template-rack\n`+
					`plug={{.NodeName}}\naction=off\n"}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
		a = w.start("a", change)
		defer a.stop()
		wait(w.ctx, 10*time.Minute)
		said := r.take()
		assert.Len(t, said, 3)
		assert.Contains(t, said, "Node n1 with UID true: Normal DevicesRead Check: all devices of the node were read")

		mu.Lock()
		defer mu.Unlock()
		assert.Len(t, told, 6, "as often as there were Events")
		assert.Equal(t, "n1: device fence_rack/rack/n1: plug n1: no answer", told[0])
		assert.Contains(t, told, "n1: <nil>")
	})
}

// A node that cannot be fenced from the beginning is news, and a note is cut where an Event would
// be refused.
func TestNodeThatWasNeverReadyToBeFencedIsAnEvent(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker", types.MergePatchType,
			fmt.Appendf(nil, `{"data":{"fence-method-plug-off":"template=%s"}}`, strings.Repeat("absent", 200)),
			metav1.PatchOptions{})
		require.NoError(t, err)
		r := &recorder{}
		a := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer a.stop()
		wait(w.ctx, settled)
		said := r.take()
		require.Len(t, said, 3)
		for _, s := range said {
			assert.Contains(t, s, "Warning NotFenceable Check: ")
			assert.Less(t, len(s), 1200)
		}
	})
}

// What the node does not say is not said either: it is when the condition is written.
func TestReadinessIsSaidOnceItIsWritten(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &recorder{}
		a := w.start("a", func(c *fencing.Config) { c.Events, c.CheckInterval = r, time.Minute })
		defer a.stop()
		wait(w.ctx, settled)
		a.client.Inject(apisim.Faults{Refuse: func(r *http.Request) bool { return r.Method == http.MethodPatch }})
		w.rack.Break("n2", fencingtest.Fault{Unreadable: true})
		wait(w.ctx, 5*time.Minute)
		assert.Empty(t, r.take())
		a.client.Inject(apisim.Faults{})
		wait(w.ctx, 5*time.Minute)
		said := r.take()
		require.Len(t, said, 1)
		assert.Contains(t, said[0], "Node n2 ")
	})
}

// Somebody else writes the node between the reading and the write of the condition, which is
// written all the same, and not only when the node is checked again.
func TestReadinessIsWrittenAlthoughTheNodeChanges(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		changes := 0
		change := func(c *apisim.Client) {
			c.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/nodes/n2/status") && changes < 3 {
					changes++
					_, err := w.client.CoreV1().Nodes().Patch(w.ctx, "n2", types.MergePatchType,
						fmt.Appendf(nil, `{"metadata":{"labels":{"change":"%d"}}}`, changes), metav1.PatchOptions{})
					assert.NoError(t, err)
				}
				return false
			}})
		}
		a := w.start("a", func(c *fencing.Config) { c.CheckInterval = time.Hour }, change)
		defer a.stop()
		wait(w.ctx, settled)
		assert.Equal(t, 3, changes)
		n, err := w.client.CoreV1().Nodes().Get(w.ctx, "n2", metav1.GetOptions{})
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == "FenceReady" && c.Status == corev1.ConditionTrue
		}), "%+v", n.Status.Conditions)
	})
}

// crowd counts how many readings are under way at the same time.
type crowd struct {
	agents
	mu        sync.Mutex
	now, most int
}

func (c *crowd) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	c.mu.Lock()
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now--
	}()
	wait(ctx, 7*time.Second)
	return c.agents.Power(ctx, target)
}

// prepared is an agent whose readings are prepared, and counts those that were not read or ended.
type prepared struct {
	agents
	mu         sync.Mutex
	open, used int
	read       []time.Time // when n1 was, after it was switched off
}

func (p *prepared) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	power, err := p.agents.Power(ctx, target)
	p.mu.Lock()
	defer p.mu.Unlock()
	if target.Node == "n1" && power == agent.PowerOff {
		p.read = append(p.read, time.Now())
	}
	return power, err
}

func (p *prepared) Prepare(ctx context.Context, target agent.Target) func(context.Context) (agent.Power, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open++
	return func(reading context.Context) (agent.Power, error) {
		p.mu.Lock()
		p.open--
		if ctx.Err() == nil {
			p.used++
		}
		p.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return agent.PowerUnknown, err
		}
		return p.Power(reading, target)
	}
}

// Both readings that prove a machine off are prepared, and are as far apart as others. Nothing that was
// prepared is left.
func TestReadingsOfAFenceArePrepared(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		p := &prepared{agents: agents{w.rack}}
		a := w.start("a", func(c *fencing.Config) { c.Agents = p })
		wait(w.ctx, settled)
		w.cutOff("n1", true)
		w.eventually(5*time.Minute, "the node is off", func() bool { return !w.rack.On("n1") })
		w.cutOff("n1", false)
		w.eventually(5*time.Minute, "the fence ends", func() bool { return w.phase("n1") == v1alpha1.PhaseFinal })
		a.stop()
		assert.Zero(t, p.open)
		assert.GreaterOrEqual(t, p.used, 2)
		require.GreaterOrEqual(t, len(p.read), 2)
		assert.GreaterOrEqual(t, p.read[1].Sub(p.read[0]), 500*time.Millisecond)
	})
}

// Agents that read devices take memory: how many of them there are at the same time is limited, and
// all nodes have their turn.
func TestChecksAtOnce(t *testing.T) {
	for atOnce, want := range map[int]int{0: 4, 1: 1, 7: 7} {
		t.Run(fmt.Sprint(atOnce), func(t *testing.T) {
			inWorld(t, 12, func(w *world) {
				w.template("agent_name=fence_rack\nip={{.NodeName}}\n")
				c := &crowd{agents: agents{w.rack}}
				a := w.start("a", func(config *fencing.Config) { config.Agents, config.ChecksAtOnce = c, atOnce })
				defer a.stop()
				wait(w.ctx, settled+12*7*time.Second)
				for i := range 12 {
					assert.Equal(t, corev1.ConditionTrue, w.fenceReady(fmt.Sprintf("n%d", i+1)).Status, i)
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				assert.Equal(t, want, c.most)
			})
		})
	}
}
