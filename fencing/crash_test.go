//go:build !race

package fencing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// errDead is what a process that has died would see.
var errDead = errors.New("the process is dead")

// death ends a replica at one of the effects that it has on the world, just before or just after
// it.
type death struct {
	after bool

	mu   sync.Mutex
	left int
	dead bool
	what string
}

// effect is called for each: it says whether the effect takes place, and whether its author learns
// of it.
func (d *death) effect(what string) (happens, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, false
	}
	if d.left--; d.left > 0 {
		return true, true
	}
	d.dead, d.what = true, what
	return d.after, false
}

func (d *death) isDead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

// mortal are the agents of a replica that may be dead.
type mortal struct {
	agents
	*death
}

func (m mortal) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	if m.isDead() {
		return agent.PowerUnknown, errDead
	}
	return m.agents.Power(ctx, target)
}

func (m mortal) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	happens, told := m.effect("switch " + target.Device + " " + string(command.Action))
	var err error
	if happens {
		err = m.agents.Switch(ctx, target, command)
	}
	if !told {
		return errDead
	}
	return err
}

// doom has a replica die at one of its effects.
func (w *world) doom(name string, d *death, changes ...func(*fencing.Config)) *replica {
	return w.start(name, func(c *fencing.Config) {
		c.Agents = mortal{agents{w.rack}, d}
		for _, change := range changes {
			change(c)
		}
	}, func(client *apisim.Client) {
		client.Inject(apisim.Faults{
			Refuse: func(req *http.Request) bool {
				if req.Method == http.MethodGet {
					return d.isDead()
				}
				if d.after {
					return d.isDead()
				}
				happens, _ := d.effect(req.Method + " " + req.URL.Path)
				return !happens
			},
			LoseResponse: func(req *http.Request) bool {
				if req.Method == http.MethodGet || !d.after {
					return false
				}
				_, told := d.effect(req.Method + " " + req.URL.Path)
				return !told
			},
		})
	})
}

// A controller dies at each of its effects in turn, just before or just after it, and another one
// goes on.
func TestSimulatedDeaths(t *testing.T) {
	proof.Simulation(t)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			d := &death{after: after, left: n}
			t.Run(fmt.Sprintf("%d/after=%v", n, after), func(t *testing.T) {
				inWorld(t, 3, func(w *world) {
					breaches := w.referee()
					w.pod("db-0", "n1")
					first := w.doom("first", d)
					wait(w.ctx, time.Minute)
					w.cutOff("n1", true)
					for range 1200 {
						if d.isDead() || w.phase("n1") == v1alpha1.PhaseFinal {
							break
						}
						if !w.rack.On("n1") {
							w.cutOff("n1", false)
						}
						wait(w.ctx, poll)
					}
					first.client.Sever()
					first.kill()
					second := w.start("second", nil)
					defer second.stop()
					w.eventually(20*time.Minute, "the fence ends", func() bool {
						if !w.rack.On("n1") {
							w.cutOff("n1", false)
						}
						return w.phase("n1") == v1alpha1.PhaseFinal
					})
					t.Logf("died at %q", d.what)
					w.requireFencedOnce("n1")
					assert.Empty(t, breaches())
				})
			})
			if !d.isDead() {
				break
			}
		}
	}
}

// The API server is out of reach from each of the controller's requests on, in turn, for so long:
// the fence goes on within 5 s of its return.
func TestSimulatedOutages(t *testing.T) {
	proof.Simulation(t)
	never := &death{left: 1 << 30}
	undisturbed := outage(t, never, 0)
	for _, length := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		for n := 1; ; n++ {
			out := &death{left: n}
			t.Run(fmt.Sprintf("%d/%v", n, length), func(t *testing.T) {
				took := outage(t, out, length)
				assert.LessOrEqual(t, took, undisturbed+length+5*time.Second, out.what)
			})
			if !out.isDead() {
				break
			}
		}
	}
}

// hurry has a node's kubelet come often, so that it is not what is waited for.
func (w *world) hurry(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[node].heartbeat = poll
}

// outage has n1 lost, and the API server for so long from an effect on. It returns how long after
// its loss the fence had ended.
func outage(t *testing.T, out *death, length time.Duration) (took time.Duration) {
	t.Helper()
	inWorld(t, 3, func(w *world) {
		breaches := w.referee()
		w.pod("db-0", "n1")
		c := w.start("a", nil, func(client *apisim.Client) {
			client.Inject(apisim.Faults{Refuse: func(r *http.Request) bool {
				if r.Method == http.MethodGet || out.isDead() {
					return out.isDead()
				}
				happens, _ := out.effect(r.Method + " " + r.URL.Path)
				return !happens
			}})
		})
		defer c.stop()
		wait(w.ctx, settled+poll) // between two rounds of kubelets
		w.cutOff("n1", true)
		lost := time.Now()
		over := false
		w.eventually(time.Hour, "the fence ends", func() bool {
			if !w.rack.On("n1") {
				w.cutOff("n1", false)
				w.hurry("n1")
			}
			if out.isDead() && !over {
				over = true
				wait(w.ctx, length)
				c.client.Inject(apisim.Faults{})
			}
			return w.phase("n1") == v1alpha1.PhaseFinal
		})
		took = time.Since(lost)
		w.requireFencedOnce("n1")
		assert.Empty(t, breaches())
	})
	return took
}
