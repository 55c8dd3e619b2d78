package fencing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// cordon does what `kubectl cordon` does, or `kubectl uncordon`.
func (w *world) cordon(node string, cordoned bool) {
	w.t.Helper()
	w.patch(node, fmt.Sprintf(`{"spec":{"unschedulable":%v}}`, cordoned))
}

func (w *world) patch(node, patch string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Nodes().Patch(w.ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// commission asks for a commission as an admin does.
func (w *world) commission(node, asked string) {
	w.t.Helper()
	w.patch(node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationCommission, asked))
}

func (w *world) asked(node string) bool {
	_, asked := w.node(node).Annotations[v1alpha1.AnnotationCommission]
	return asked
}

// proof is what is written at a node.
func (w *world) proof(node string) (p fencing.Commissioned) {
	w.t.Helper()
	if text := w.node(node).Annotations[v1alpha1.AnnotationCommissioned]; text != "" {
		require.NoError(w.t, json.Unmarshal([]byte(text), &p))
	}
	return p
}

// belongs gives a pod an owner.
func (w *world) belongs(pod, kind string) {
	w.t.Helper()
	p, err := w.client.CoreV1().Pods("ns").Get(w.ctx, pod, metav1.GetOptions{})
	require.NoError(w.t, err)
	p.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: kind, Name: "owner", UID: "owner",
		Controller: ptr.To(true),
	}}
	_, err = w.client.CoreV1().Pods("ns").Update(w.ctx, p, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

// assess says which devices of each node are not proved.
func (w *world) unproved(c *replica) map[string][]string {
	w.t.Helper()
	all, err := c.Assess(w.ctx)
	require.NoError(w.t, err)
	unproved := map[string][]string{}
	for _, a := range all {
		unproved[a.Node] = a.Unproved
	}
	return unproved
}

func TestCommissionProvesTheDevices(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &recorder{}
		var told []error
		c := w.start("a", func(c *fencing.Config) {
			c.Events = r
			c.Hooks.OnCommission = func(_ string, err error) { told = append(told, err) }
		})
		defer c.stop()
		wait(w.ctx, settled)
		assert.Equal(t, []string{"fence_rack/rack/n1"}, w.unproved(c)["n1"])
		w.cordon("n1", true)
		w.pod("daemon", "n1")
		w.belongs("daemon", "DaemonSet")

		p, err := c.Commission(w.ctx, "n1")
		require.NoError(t, err)
		require.Len(t, p.Levels, 1)
		assert.Equal(t, "0", p.Levels[0].Before)
		assert.Equal(t, "1", p.Levels[0].After)
		assert.Contains(t, p.Levels[0].Devices, "fence_rack/rack/n1")
		assert.Equal(t, p, w.proof("n1"))
		assert.Equal(t, w.node("n1").UID, p.UID)
		assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff))
		assert.True(t, w.rack.On("n1"))
		assert.True(t, w.node("n1").Spec.Unschedulable, "the cordon is the admin's")
		assert.Equal(t, []string{"daemon"}, w.pods("n1"))
		w.untouched("n2")
		said := r.take()
		assert.Equal(t, []string{
			"Node n1 with UID true: Normal CommissionBegun Commission: incident 1, level 1: Commissioning",
			"Node n1 with UID true: Normal NodeWentDown Commission: incident 1, level 1: Restoring",
			"Node n1 with UID true: Normal Commissioned Commission: its power devices are its own",
		}, said)
		assert.Equal(t, []error{nil}, told)
		unproved := w.unproved(c)
		assert.Empty(t, unproved["n1"])
		assert.NotEmpty(t, unproved["n2"])

		// It can be done once more, and is not a start of a fence.
		p, err = c.Commission(w.ctx, "n1")
		require.NoError(t, err)
		require.Len(t, p.Levels, 1)
		assert.Equal(t, "2", p.Levels[0].After)
		assert.Empty(t, w.fence("n1").Status.Problems.Starts)

		// Another way to the same plug is not proved.
		_, err = w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-method-template-rack",
			types.MergePatchType, []byte(`{"data":{"template.properties":"agent_name=fence_rack\nip=other\n"}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"fence_rack/other/n1"}, w.unproved(c)["n1"])
	})
}

func TestCommissionIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		config func(*fencing.Config)
		change func(w *world, c *replica)
		says   []string
	}{
		"no such node": {node: "n9", says: []string{`node "n9" not found`}},
		"not cordoned": {
			change: func(w *world, _ *replica) { w.cordon("n1", false); w.pod("db-0", "n1") },
			says:   []string{"cordoned", "drained: ns/db-0"},
		},
		"cordoned by a fence": {change: func(w *world, _ *replica) {
			w.patch("n1", `{"metadata":{"annotations":{"fencing.bellwether.dev/cordoned":"1"}}}`)
		}, says: []string{"cordoned by an admin"}},
		"excluded": {change: func(w *world, _ *replica) {
			w.patch("n1", `{"metadata":{"labels":{"fencing.bellwether.dev/exclude":"yes"}}}`)
		}, says: []string{"excluded"}},
		"paused": {
			config: func(c *fencing.Config) { c.Paused = func() string { return "at night" } },
			says:   []string{"at night"},
		},
		"its own host": {
			config: func(c *fencing.Config) { c.OutsideCluster, c.Node = false, "n1" },
			says:   []string{"runs on node n1 itself"},
		},
		"devices cannot be read": {change: func(w *world, _ *replica) {
			w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
			wait(w.ctx, 10*time.Minute)
		}, says: []string{"last check of the devices"}},
		"another node is lost": {change: func(w *world, _ *replica) {
			w.cutOff("n2", true)
			wait(w.ctx, time.Minute)
			w.cutOff("n3", true)
			wait(w.ctx, time.Minute)
		}, says: []string{"unhealthy"}},
		"another machine is off": {change: func(w *world, _ *replica) {
			w.cutOff("n2", true)
			w.eventually(10*time.Minute, "n2 is off", func() bool { return !w.rack.On("n2") })
		}, says: []string{"1 fence is under way"}},
		"the node is lost": {
			change: func(w *world, _ *replica) { w.cutOff("n1", true); wait(w.ctx, time.Minute) },
			says:   []string{"is failing", "in a fence"},
		},
		"just started": {
			config: func(c *fencing.Config) { c.Limits.Observation = time.Hour },
			says:   []string{"has to watch"},
		},
		"configuration is wrong": {change: func(w *world, _ *replica) {
			_, err := w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-type-worker",
				types.MergePatchType, []byte(`{"data":{"fence-method-plug-off":"template=absent"}}`),
				metav1.PatchOptions{})
			require.NoError(w.t, err)
			wait(w.ctx, time.Second)
		}, says: []string{"absent"}},
		"not the leader": {
			change: func(_ *world, c *replica) { c.reign.ended.Store(true) },
			says:   []string{"only the leader"},
		},
		"no boot ID": {change: func(w *world, _ *replica) {
			_, err := w.client.CoreV1().Nodes().Patch(w.ctx, "n1", types.MergePatchType,
				[]byte(`{"status":{"nodeInfo":{"bootID":""}}}`), metav1.PatchOptions{}, "status")
			require.NoError(w.t, err)
		}, says: []string{"no boot ID"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 4, func(w *world) {
				a := w.start("a", c.config)
				defer func() { a.kill() }()
				wait(w.ctx, settled+time.Second) // between two heartbeats
				w.cordon("n1", true)
				if c.change != nil {
					c.change(w, a)
					wait(w.ctx, time.Second) // it has seen that
				}
				node := "n1"
				if c.node != "" {
					node = c.node
				}
				_, err := a.Commission(w.ctx, node)
				for _, says := range c.says {
					require.ErrorContains(t, err, says)
				}
				if name == "not the leader" {
					assert.ErrorIs(t, err, fencing.ErrNotRunning)
				} else {
					assert.ErrorIs(t, err, fencing.ErrRefused)
				}
				if f := w.fence("n1"); f != nil {
					assert.Nil(t, f.Status.Commission)
				}
				w.untouched("n1")
			})
		})
	}
}

// TestRequestThatCannotBeRemoved has a policy forbid to change a node. The refusal of its commission
// is said once, and again for another request.
func TestRequestThatCannotBeRemoved(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		core, logs := observer.New(zap.WarnLevel)
		r := &told{}
		var denies atomic.Bool
		w.proxy = func(q *http.Request) *http.Response {
			if denies.Load() && q.Method == http.MethodPatch && strings.HasSuffix(q.URL.Path, "/nodes/n1") {
				return status(http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: no`)
			}
			return nil
		}
		c := w.start("a", func(c *fencing.Config) { c.Events, c.Logger = r, zap.New(core) })
		defer c.stop()
		wait(w.ctx, settled)
		denies.Store(true)
		for i, asked := range []string{"wrong", "wrong again"} {
			w.commission("n1", asked)
			wait(w.ctx, 10*time.Minute)
			assert.Equal(t, i+1, r.count("Warning CommissionRefused"))
			assert.Equal(t, i+1, logs.FilterMessage("annotation not removed, retrying").Len())
		}
		denies.Store(false)
		w.eventually(time.Minute, "the request is removed", func() bool { return !w.asked("n1") })
	})
}

// TestRequestThatCannotBeRecorded has a policy forbid the record of a commission. A warning says so.
func TestRequestThatCannotBeRecorded(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		core, logs := observer.New(zap.WarnLevel)
		w.proxy = func(q *http.Request) *http.Response {
			if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/nodefences") {
				return status(http.StatusForbidden, "Forbidden", `admission webhook "w" denied the request: no`)
			}
			return nil
		}
		c := w.start("a", func(c *fencing.Config) { c.Logger = zap.New(core) })
		defer c.stop()
		w.cordon("n1", true)
		wait(w.ctx, settled)
		w.commission("n1", "0")
		wait(w.ctx, 10*time.Minute)
		assert.Equal(t, 1, logs.FilterMessage("commission not started, retrying").Len())
		assert.True(t, w.asked("n1"))
	})
}

func TestCommissionIsAskedForByAnAnnotation(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		r := &recorder{}
		w.cordon("n1", true)
		w.commission("n1", "0") // before anybody leads who could judge it
		c := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer c.stop()
		w.eventually(10*time.Minute, "it is commissioned", func() bool { return len(w.proof("n1").Levels) > 0 })
		w.ends("n1", v1alpha1.PhaseFinal)
		assert.False(t, w.asked("n1"))
		assert.NotContains(t, fmt.Sprint(r.take()), "Refused")

		for _, stale := range []string{"0", "", "true", "7/1"} {
			w.commission("n1", stale)
			w.eventually(time.Minute, "it is looked at", func() bool { return !w.asked("n1") })
			said := r.take()
			require.Len(t, said, 1, "once")
			assert.Contains(t, said[0], "Warning CommissionRefused Commission: ")
			assert.Contains(t, said[0],
				fmt.Sprintf("boot ID was %q",
					map[string]string{"7/1": "7"}[stale]+map[string]string{"0": "0", "true": "true"}[stale]))
		}
		wait(w.ctx, time.Hour)
		assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff))

		w.rack.Break("n1", fencingtest.Fault{Ignore: true})
		for i, times := range []int{2, 2, 3} {
			// the same once more is not taken, as it may be what was asked for before
			asked := "1"
			if i == 2 {
				asked = "1/again"
			}
			w.commission("n1", asked)
			w.eventually(10*time.Minute, "it has ended", func() bool {
				return !w.asked("n1") && w.phase("n1") == v1alpha1.PhaseFinal && w.fence("n1").Annotations == nil
			})
			assert.Equal(t, times, w.rack.Count("n1", "command", agent.ActionOff), i)
			assert.Contains(t, w.fence("n1").Status.Commission.Failed, "reads on")
			assert.Equal(t, i == 1, strings.Contains(fmt.Sprint(r.take()), "with this very value before"))
		}
	})
}

// A plug that obeys, and is not the node's, is found out, and has its power back.
func TestWrongPlugIsFoundOut(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.configure("fence-config-node-n1", map[string]string{
			"config.properties": "node_name=n1\nisolation=mark-unschedulable\npower_management=plug-off " +
				"plug-on\nrecovery=mark-schedulable\n",
			"fence-method-plug-off": "template=fence-method-template-rack\nplug=port\naction=off\n",
			"fence-method-plug-on":  "template=fence-method-template-rack\nplug=port\naction=on\n",
		})
		r := &recorder{}
		c := w.start("a", func(c *fencing.Config) { c.Events = r })
		defer c.stop()
		wait(w.ctx, settled)
		w.cordon("n1", true)
		began := time.Now()
		_, err := c.Commission(w.ctx, "n1")
		require.ErrorIs(t, err, fencing.ErrCommissionFailed)
		assert.ErrorContains(t, err, "another machine's")
		assert.Less(t, time.Since(began), 3*time.Minute, "somebody's machine was off meanwhile")
		assert.True(t, w.rack.On("port"))
		assert.Equal(t, 1, w.rack.Count("port", "command", agent.ActionOff))
		assert.Empty(t, w.proof("n1"))
		f := w.fence("n1")
		assert.Equal(t, v1alpha1.PhaseFinal, f.Status.Phase)
		assert.True(t, hasCondition(f, v1alpha1.ConditionDeviceSuspect))
		said := r.take()
		assert.Contains(t, said[len(said)-1], "Warning CommissionFailed Commission: ")
	})
}

func hasCondition(f *v1alpha1.NodeFence, kind string) bool {
	for _, c := range f.Status.Conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

// A machine that does not start is given up, and the error and the record say so; it is not fenced.
func TestMachineThatDoesNotStartIsGivenUp(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.cordon("n1", true)
		result := make(chan error)
		go func() {
			_, err := c.Commission(w.ctx, "n1")
			result <- err
		}()
		w.eventually(5*time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
		w.rack.Break("n1", fencingtest.Fault{Ignore: true})
		err := <-result
		require.ErrorIs(t, err, fencing.ErrCommissionFailed)
		assert.ErrorContains(t, err, "off: fence_rack/rack/n1")
		wait(w.ctx, time.Hour)
		assert.Equal(t, v1alpha1.PhaseGivenUp, w.phase("n1"))
		assert.True(t, hasCondition(w.fence("n1"), v1alpha1.ConditionPoweredOff))
		assert.Equal(t, 1, w.rack.Count("n1", "command", agent.ActionOff))
	})
}

func TestOnlyCommissionedNodesAreFenced(t *testing.T) {
	inWorld(t, 4, func(w *world) {
		c := w.start("a", func(c *fencing.Config) { c.RequireCommissioned = true })
		defer c.stop()
		wait(w.ctx, settled)
		w.cordon("n1", true)
		_, err := c.Commission(w.ctx, "n1")
		require.NoError(t, err)
		w.cordon("n1", false)
		w.cutOff("n2", true)
		w.eventually(5*time.Minute, "it is held",
			func() bool { f := w.fence("n2"); return f != nil && f.Status.Hold != nil })
		hold := w.fence("n2").Status.Hold
		assert.Equal(t, policy.ReasonNotConfigured, hold.Reason)
		assert.Contains(t, hold.Message, "was not commissioned with its present configuration")
		assert.Contains(t, hold.Message, "fence_rack/rack/n2")
		wait(w.ctx, time.Hour)
		w.untouched("n2")
		w.cutOff("n2", false)
		wait(w.ctx, 10*time.Minute)

		w.lose("n1") // is proved
		w.ends("n1", v1alpha1.PhaseFinal)
		assert.Equal(t, 2, w.rack.Count("n1", "command", agent.ActionOff))

		all, err := c.Assess(w.ctx)
		require.NoError(t, err)
		for _, a := range all {
			for _, g := range a.Decision.Gates {
				if g.Gate == "Readiness" {
					assert.Equal(t, a.Node == "n1", g.Verdict == api.Allow, "%s: %s", a.Node, g.Message)
				}
			}
		}
		// The machine is another one now, with the node's name.
		n := w.node("n1")
		n.Status.NodeInfo.SystemUUID = "other"
		_, err = w.client.CoreV1().Nodes().UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"fence_rack/rack/n1"}, w.unproved(c)["n1"])
	})
}

// While a machine is off to be tried, no other loses its power.
func TestCommissionCountsAsAFence(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.cordon("n1", true)
		ctx, cancel := context.WithCancel(w.ctx)
		result := make(chan error)
		go func() {
			_, err := c.Commission(ctx, "n1")
			result <- err
		}()
		w.eventually(time.Minute, "n1 is off", func() bool { return !w.rack.On("n1") })
		w.rack.Break("n1", fencingtest.Fault{Unreadable: true}) // it stays off meanwhile
		_, err := c.Commission(w.ctx, "n1")
		assert.ErrorIs(t, err, fencing.ErrRefused, "one at a time")
		w.cordon("n2", true)
		_, err = c.Commission(w.ctx, "n2")
		assert.ErrorContains(t, err, "1 fence is under way")
		w.cutOff("n3", true)
		w.eventually(5*time.Minute, "n3 waits",
			func() bool { f := w.fence("n3"); return f != nil && f.Status.Hold != nil })
		assert.Equal(t, policy.ReasonQueue, w.fence("n3").Status.Hold.Reason)
		w.untouched("n3")
		cancel() // who has asked has gone, and it goes on
		require.ErrorIs(t, <-result, context.Canceled)
		w.rack.Break("n1", fencingtest.Fault{})
		w.eventually(10*time.Minute, "n1 is on", func() bool { return w.rack.On("n1") })
		w.lose("n3")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.ends("n3", v1alpha1.PhaseFinal)
	})
}

// Who is allowed to try devices has a slot from then on, not only once the record says so.
func TestCommissionHasItsSlotAtOnce(t *testing.T) {
	inWorld(t, 5, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		for _, node := range []string{"n1", "n2"} {
			w.cordon(node, true)
			w.commission(node, "0")
		}
		c.client.Inject(apisim.Faults{Latency: 100 * time.Millisecond}) // so that both ask before either has written
		most := 0
		for range 600 {
			off := 0
			for _, node := range []string{"n1", "n2"} {
				if !w.rack.On(node) {
					off++
				}
			}
			most = max(most, off)
			wait(w.ctx, poll)
		}
		assert.Equal(t, 1, most)
		assert.Equal(t, 1,
			w.rack.Count("n1", "command", agent.ActionOff)+w.rack.Count("n2", "command", agent.ActionOff))
	})
}

// A node that is uncordoned before the command keeps its power: that is the last word of an admin.
func TestUncordonedNodeKeepsItsPower(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.rack.Break("n1", fencingtest.Fault{Slow: 10 * time.Second})
		w.cordon("n1", true)
		w.commission("n1", "0")
		w.eventually(time.Minute, "it has begun", func() bool { return w.phase("n1") == v1alpha1.PhaseCommissioning })
		w.cordon("n1", false)
		w.ends("n1", v1alpha1.PhaseFinal)
		w.untouched("n1")
		assert.Contains(t, w.fence("n1").Status.Commission.Failed, "cordoned")
	})
}

// A pod that comes to the node before the command keeps its power.
func TestNodeWithAPodKeepsItsPower(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		c := w.start("a", nil)
		defer c.stop()
		wait(w.ctx, settled)
		w.rack.Break("n1", fencingtest.Fault{Slow: 10 * time.Second})
		w.cordon("n1", true)
		w.commission("n1", "0")
		w.eventually(time.Minute, "it has begun", func() bool { return w.phase("n1") == v1alpha1.PhaseCommissioning })
		w.pod("tolerates-everything", "n1")
		w.ends("n1", v1alpha1.PhaseFinal)
		w.untouched("n1")
		assert.Contains(t, w.fence("n1").Status.Commission.Failed, "ns/tolerates-everything")
	})
}

// Two levels, one of them with two feeds: each is proved by itself, in one go, and no device has
// to switch off twice.
func TestCommissionProvesEachLevel(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		method := func(plug, action string) string {
			return "template=fence-method-template-rack\nplug=" + plug + "\naction=" + action + "\n"
		}
		w.configure("fence-config-node-n1", map[string]string{
			"config.properties": "node_name=n1\nisolation=mark-unschedulable\npower_management=feed-off port-off " +
				"feed-on port-on\n" +
				"power_management.2=plug-off plug-on\npower_on=always\nrecovery=mark-schedulable\n",
			"fence-method-feed-off": method("feed", "off"), "fence-method-feed-on": method("feed", "on"),
			"fence-method-port-off": method("port", "off"), "fence-method-port-on": method("port", "on"),
			"fence-method-plug-off": method("n1", "off"), "fence-method-plug-on": method("n1", "on"),
		})
		w.feeds, w.dead = map[string]string{"feed": "n1", "port": "n1"}, map[string]bool{}
		c := w.start("a", func(c *fencing.Config) { c.RequireCommissioned = true })
		defer c.stop()
		wait(w.ctx, settled)
		w.cordon("n1", true)
		p, err := c.Commission(w.ctx, "n1")
		require.NoError(t, err)
		require.Len(t, p.Levels, 2)
		assert.Len(t, p.Levels[0].Devices, 2)
		assert.Len(t, p.Levels[1].Devices, 1)
		assert.Equal(t, p.Levels[0].After, p.Levels[1].Before)
		for _, plug := range []string{"feed", "port", "n1"} {
			assert.Equal(t, 1, w.rack.Count(plug, "command", agent.ActionOff), plug)
			assert.True(t, w.rack.On(plug), plug)
		}
		assert.Empty(t, w.unproved(c)["n1"])

		// One feed less: the one that is left was never off alone.
		_, err = w.client.CoreV1().ConfigMaps("fencing").Patch(w.ctx, "fence-config-node-n1", types.MergePatchType,
			[]byte(
				`{"data":{"config.properties":"node_name=n1\nisolation=mark-unschedulable\npower_management=feed-off `+
					`feed-on\npower_management.2=plug-off plug-on\nrecovery=mark-schedulable\n"}}`),
			metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, []string{"fence_rack/rack/feed"}, w.unproved(c)["n1"])
	})
}
