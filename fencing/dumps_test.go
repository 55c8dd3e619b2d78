package fencing_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// address is that of a node.
func address(node string) string { return "10.0.0." + strings.TrimPrefix(node, "n") }

// ears are a port on which messages of dumps come.
type ears struct {
	messages      chan netip.Addr
	stands        time.Duration // the process stands still for so long when a message has come
	opens, closes atomic.Int32
}

func newEars() *ears { return &ears{messages: make(chan netip.Addr)} }

func (e *ears) open() (fencing.Dumps, error) {
	e.opens.Add(1)
	return e, nil
}

func (e *ears) Receive(ctx context.Context) ([]netip.Addr, error) {
	select {
	case from := <-e.messages:
		wait(ctx, e.stands)
		return []netip.Addr{from}, nil
	case <-time.After(time.Second):
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *ears) Close() error {
	e.closes.Add(1)
	return nil
}

// heed is how a controller hears with them.
func (e *ears) heed(c *fencing.Config) { c.Dumps = e.open }

// say has a message come, if somebody listens.
func (e *ears) say(w *world, address string) {
	select {
	case e.messages <- netip.MustParseAddr(address):
	case <-time.After(time.Second):
	case <-w.ctx.Done():
	}
}

// set changes the settings of all nodes.
func (w *world) set(settings string) {
	w.t.Helper()
	maps := w.client.CoreV1().ConfigMaps("fencing")
	m, err := maps.Get(w.ctx, "fence-config-type-worker", metav1.GetOptions{})
	require.NoError(w.t, err)
	m.Data["config.properties"] = settings
	_, err = maps.Update(w.ctx, m, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// dumps says whether the kernel of a node writes a dump, which runs no pods.
func (w *world) dumps(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[node] != nil && w.machines[node].dumping
}

// crash has the kernel of a node's machine stop and write a dump for so long, and say so each 10 s.
// Then the machine restarts.
func (w *world) crash(node string, e *ears, takes time.Duration) {
	w.mu.Lock()
	m := w.machines[node]
	m.dumping = true
	w.mu.Unlock()
	go func() {
		for began := time.Now(); time.Since(began) < takes && w.dumps(node); wait(w.ctx, 10*time.Second) {
			e.say(w, address(node))
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if m.dumping { // it has its power still
			m.dumping, m.up = false, time.Now().Add(boot)
			m.boots++
		}
	}()
}

const kdump = settings + "kdump=yes\n"

func TestDumpReleasesPodsAndIsNotCutOff(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		e := newEars()
		w.set(strings.Replace(kdump, "boot_grace", "kdump_timeout=10m\nboot_grace", 1))
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", e.heed)
		defer a.stop()
		wait(w.ctx, settled)
		w.crash("n1", e, 5*time.Minute)
		w.eventually(2*time.Minute, "its pods are released", func() bool { return len(w.pods("n1")) == 0 })
		assert.True(t, w.dumps("n1"))
		f := w.fence("n1")
		assert.Equal(t, v1alpha1.PhaseIsolated, f.Status.Phase)
		assert.Equal(t, v1alpha1.SourceKdump, f.Status.Evidence[0].Source)
		for w.dumps("n1") {
			require.True(t, w.rack.On("n1"))
			wait(w.ctx, poll)
		}
		w.eventually(10*time.Minute, "the fence ends", func() bool { return w.phase("n1") == v1alpha1.PhaseFinal })
		assert.Empty(t, breaches())
	})
}

// A machine whose dump takes longer than it may loses its power.
func TestDumpThatTakesTooLong(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		e := newEars()
		w.set(strings.Replace(kdump, "boot_grace", "kdump_timeout=1m\nboot_grace", 1))
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", e.heed)
		defer a.stop()
		wait(w.ctx, settled)
		w.crash("n1", e, time.Hour)
		w.eventually(10*time.Minute, "the fence ends", func() bool { return w.phase("n1") == v1alpha1.PhaseFinal })
		w.requireFencedOnce("n1")
		assert.Equal(t, v1alpha1.ReleasedDone, w.fence("n1").Status.Released)
		assert.Empty(t, breaches())
	})
}

// A machine that is back when its dump is written keeps its power.
func TestMachineThatIsBackAfterItsDump(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		e := newEars()
		w.set(strings.Replace(kdump, "power_wait=20s", "power_wait=5m", 1))
		breaches := w.referee()
		w.pod("db-0", "n1")
		a := w.start("a", e.heed)
		defer a.stop()
		wait(w.ctx, settled)
		w.crash("n1", e, 90*time.Second)
		w.eventually(5*time.Minute, "the fence ends", func() bool { return w.phase("n1") == v1alpha1.PhaseFinal })
		assert.Empty(t, w.pods("n1"))
		assert.Zero(t, w.rack.Count("n1", "command", agent.ActionOff))
		assert.Empty(t, w.node("n1").Spec.Taints)
		assert.Empty(t, breaches())
	})
}

// What does not come from exactly one node that fails proves nothing.
func TestKdumpMessagesOfNoSingleFailedNodeProveNothing(t *testing.T) {
	for name, from := range map[string]string{"of another node": "n2", "of no node": "n9", "of several nodes": "n1"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				e := newEars()
				w.set(strings.Replace(kdump, "power_wait=20s", "power_wait=5m", 1))
				w.pod("db-0", "n1")
				w.pod("db-1", "n2")
				if name == "of several nodes" {
					n := w.node("n3")
					n.Status.Addresses = append(n.Status.Addresses,
						corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address("n1")})
					_, err := w.client.CoreV1().Nodes().UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
					require.NoError(t, err)
				}
				a := w.start("a", e.heed)
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				for range 24 {
					e.say(w, address(from))
					wait(w.ctx, 10*time.Second)
				}
				assert.Equal(t, v1alpha1.PhaseIsolated, w.phase("n1"))
				assert.Len(t, w.pods("n1"), 1)
				assert.Len(t, w.pods("n2"), 1)
				assert.Nil(t, w.fence("n2"))
			})
		})
	}
}

// A message counts from when it may have come, and not from when it was read: the machine may have
// rebooted meanwhile.
func TestMessageThatIsReadLate(t *testing.T) {
	for stands, pods := range map[time.Duration]int{0: 0, 10 * time.Second: 1} {
		t.Run(stands.String(), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				e := newEars()
				e.stands = stands
				w.set(strings.Replace(kdump, "power_wait=20s", "power_wait=5m", 1))
				w.pod("db-0", "n1")
				a := w.start("a", e.heed)
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.eventually(5*time.Minute, "it is isolated",
					func() bool { return w.phase("n1") == v1alpha1.PhaseIsolated })
				e.say(w, address("n1"))
				wait(w.ctx, time.Minute)
				assert.Len(t, w.pods("n1"), pods)
			})
		})
	}
}

func TestNothingListensUnlessAskedFor(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		e := newEars()
		a := w.start("a", e.heed)
		wait(w.ctx, settled)
		assert.Zero(t, e.opens.Load())
		w.set(kdump)
		wait(w.ctx, 10*time.Minute)
		assert.EqualValues(t, 1, e.opens.Load())
		assert.Zero(t, e.closes.Load())
		a.stop()
		assert.EqualValues(t, 1, e.closes.Load())
	})
}

// Users who rely on dumps learn in time that no dump is heard of.
func TestPortThatCannotBeOpened(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.set(kdump)
		var taken atomic.Bool
		taken.Store(true)
		e := newEars()
		a := w.start("a", func(c *fencing.Config) {
			c.Dumps = func() (fencing.Dumps, error) {
				if taken.Load() {
					return nil, errors.New("the port is taken")
				}
				return e.open()
			}
		})
		defer a.stop()
		fenceReady := func() (found corev1.NodeCondition) {
			for _, c := range w.node("n1").Status.Conditions {
				if c.Type == api.DefaultFenceReadyCondition {
					found = c
				}
			}
			return found
		}
		wait(w.ctx, settled)
		assert.Equal(t, corev1.ConditionFalse, fenceReady().Status)
		assert.Contains(t, fenceReady().Message, "the port is taken")
		w.cutOff("n1", true)
		wait(w.ctx, 5*time.Minute)
		w.untouched("n1")
		assert.Equal(t, policy.ReasonNotConfigured, w.fence("n1").Status.Hold.Reason)
		taken.Store(false)
		w.eventually(5*time.Minute, "it is fenced", func() bool { return !w.rack.On("n1") })
	})
}
