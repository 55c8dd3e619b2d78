package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// single are devices that refuse a call while another one is under way, as many PDUs and BMCs do.
type single struct {
	agents
	takes time.Duration
	name  func(agent.Target) string // of a device

	mu      sync.Mutex
	busy    map[string]bool
	refused int
	calls   map[string]int // by node
}

func newSingle(w *world, takes time.Duration) *single {
	return &single{
		agents: agents{w.rack}, takes: takes, busy: map[string]bool{}, calls: map[string]int{},
		name: func(t agent.Target) string { ip, _ := t.Parameters.Get("ip"); return ip },
	}
}

var errBusy = errors.New("somebody is logged in")

func (s *single) call(ctx context.Context, t agent.Target, do func() error) error {
	name := s.name(t)
	s.mu.Lock()
	refused := s.busy[name]
	if refused {
		s.refused++
	} else {
		s.busy[name] = true
		s.calls[t.Node]++
	}
	s.mu.Unlock()
	if refused {
		return errBusy
	}
	wait(ctx, s.takes)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy[name] = false
	}()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return do()
}

func (s *single) Power(ctx context.Context, t agent.Target) (power agent.Power, err error) {
	power = agent.PowerUnknown
	err = s.call(ctx, t, func() error { power, err = s.agents.Power(ctx, t); return err })
	return power, err
}

func (s *single) Switch(ctx context.Context, t agent.Target, command agent.Command) error {
	return s.call(ctx, t, func() error { return s.agents.Switch(ctx, t, command) })
}

func (s *single) requireNoneRefused(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Zero(t, s.refused)
}

// 24 nodes hang on one PDU, which takes one session at a time, and 3 s for each call. 4 are lost at once.
func TestNodesOfOneDeviceTakeTurns(t *testing.T) {
	inWorld(t, 24, func(w *world) {
		breaches := w.referee()
		const takes, lost = 3 * time.Second, 4
		s := newSingle(w, takes)
		for i := range lost {
			w.pod(fmt.Sprintf("db-%d", i), fmt.Sprintf("n%d", i+1))
		}
		a := w.start("a", func(c *fencing.Config) { c.Agents, c.Limits.MaxConcurrent = s, lost })
		defer a.stop()
		w.eventually(24*takes+time.Minute, "all nodes are checked", func() bool {
			for i := range 24 {
				if w.fenceReady(fmt.Sprintf("n%d", i+1)).Status != corev1.ConditionTrue {
					return false
				}
			}
			return true
		})
		s.mu.Lock()
		clear(s.calls)
		s.mu.Unlock()
		began := time.Now()
		for i := range lost {
			w.cutOff(fmt.Sprintf("n%d", i+1), true)
		}
		calls := 0
		w.eventually(time.Hour, "the pods of all lost nodes are released", func() bool {
			for i := range lost {
				if len(w.pods(fmt.Sprintf("n%d", i+1))) > 0 {
					return false
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			for i := range lost {
				calls = max(calls, s.calls[fmt.Sprintf("n%d", i+1)])
			}
			return true
		})
		took := time.Since(began)
		t.Logf("%v, with at most %d calls for a node", took, calls)
		assert.LessOrEqual(t, calls, 10)
		assert.Less(t, took, 510*time.Second+10*(lost+1)*takes, "as docs/fencing.md says")
		for i := range lost {
			w.cutOff(fmt.Sprintf("n%d", i+1), false)
		}
		for i := range lost {
			w.ends(fmt.Sprintf("n%d", i+1), v1alpha1.PhaseFinal)
			w.requireFencedOnce(fmt.Sprintf("n%d", i+1))
		}
		s.requireNoneRefused(t)
		assert.Empty(t, breaches())
	})
}

// What one device is does not always follow from its address.
func TestDeviceWithTwoAddresses(t *testing.T) {
	inWorld(t, 8, func(w *world) {
		w.template("agent_name=fence_rack\nip={{.NodeName}}\ndevice=chassis\n")
		s := newSingle(w, 3*time.Second)
		s.name = func(agent.Target) string { return "chassis" }
		a := w.start("a", func(c *fencing.Config) { c.Agents = s })
		defer a.stop()
		wait(w.ctx, 10*time.Minute)
		s.requireNoneRefused(t)
	})
}

// A PDU hangs, and the checks of its nodes wait for each other. Those of the others do not wait for them.
func TestDeviceThatHangsDelaysNoChecksOfOthers(t *testing.T) {
	inWorld(t, 24, func(w *world) {
		for i := range 12 {
			node := fmt.Sprintf("n%d", i+1)
			w.configure("fence-config-node-"+node, map[string]string{
				"config.properties":     settings,
				"fence-method-plug-off": "agent=fence_rack\nip=hung\nplug=" + node + "\naction=off\n",
				"fence-method-plug-on":  "agent=fence_rack\nip=hung\nplug=" + node + "\naction=on\n",
			})
		}
		s := hung{newSingle(w, time.Second)}
		a := w.start("a", func(c *fencing.Config) { c.Agents = s })
		defer a.stop()
		w.eventually(time.Minute, "the others are checked", func() bool {
			for i := range 12 {
				if w.fenceReady(fmt.Sprintf("n%d", 13+i)).Status != corev1.ConditionTrue {
					return false
				}
			}
			return true
		})
	})
}

type hung struct{ *single }

func (h hung) Power(ctx context.Context, t agent.Target) (agent.Power, error) {
	if h.name(t) == "hung" {
		<-ctx.Done()
		return agent.PowerUnknown, ctx.Err()
	}
	return h.single.Power(ctx, t)
}
