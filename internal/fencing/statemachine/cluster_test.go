package statemachine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// plug is a device of a cluster.
type plug struct {
	on       bool
	silent   bool          // does not answer when it is read
	deaf     bool          // takes commands, and does not carry them out
	delay    time.Duration // from a command to its effect
	due      time.Duration
	wanted   agent.Action
	commands []agent.Action
	foreign  bool // switched on by somebody else since it was read
	// suspended reads off, although the machine goes on later. Its agent then sends no off.
	suspended bool
}

// cluster is a machine, its node and the controller in one thread: what a real controller does, without
// the requests.
type cluster struct {
	t      *testing.T
	fence  *v1alpha1.NodeFence
	plan   nodeplan.Plan
	policy statemachine.Policy
	// unresolved is why there is no plan, and fenceReady lets Ready nodes be fenced. The devices are
	// not known if unknown is set.
	unresolved          string
	fenceReady, unknown bool

	memory statemachine.Memory
	now    clock.Reading

	node    statemachine.Node
	boots   bool // the node is Ready a minute after it has got power
	bootsAt time.Duration
	renews  bool
	plugs   map[string]*plug
	trigger *v1alpha1.Trigger
	failing map[string]int // methods that fail so often
	pods    int            // what is left to be deleted, at 10 a time
	emptied time.Duration  // when this process found none left; negative: it did not
	volumes int            // counts of attachments that are left, one less each time
	methods []string
	deleted bool
	lost    bool // the answer to the next write is
	refused bool // the next write is
	steps   []statemachine.Step
	lines   []string
	looks   time.Duration
	dumping bool                     // the kernel has stopped, and says each 10 s that it writes a dump
	dump    clock.Reading            // when it has said so last
	shown   func(*statemachine.Node) // what the API server says of the node, where it is something else
}

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func device(name string) *nodeplan.Device {
	return &nodeplan.Device{
		Key: name, Settle: 30 * time.Second, Timeout: 30 * time.Second, Poll: 5 * time.Second, OffIsProof: true,
	}
}

// feed switches a device off.
func feed(name string) nodeplan.Method {
	return nodeplan.Method{Name: name, Action: agent.ActionOff, Device: device(name), MustSucceed: true}
}

// planOf is a plan with these levels.
func planOf(levels ...nodeplan.Level) nodeplan.Plan {
	p := nodeplan.Defaults()
	p.Hash, p.PowerManagement = "1", levels
	return p
}

// bmc is a plan with one device.
func bmc() nodeplan.Plan {
	return planOf(nodeplan.Level{feed("bmc")})
}

func newCluster(t *testing.T, plan nodeplan.Plan) *cluster {
	t.Helper()
	require.NoError(t, statemachine.Validate(plan))
	c := &cluster{
		t: t, plan: plan, now: clock.Reading{Wall: epoch, Monotonic: time.Hour}, looks: 10 * time.Millisecond,
		boots: true,
		fence: &v1alpha1.NodeFence{
			ObjectMeta: metav1.ObjectMeta{Name: "node-fence-n", UID: "c0ffee00-1234-5678"}, Node: "n",
		},
		node:  statemachine.Node{UID: "node's uid", Failing: true, BootID: "boot 1", Renewal: "0"},
		plugs: map[string]*plug{}, failing: map[string]int{},
	}
	for _, d := range plan.Devices() {
		c.plugs[d.Key] = &plug{on: true}
	}
	c.restart()
	return c
}

// restart is a crash of the controller, and the next one.
func (c *cluster) restart() {
	c.memory, c.emptied, c.dump = statemachine.NewMemory(c.now), -1, clock.Reading{}
}

func (c *cluster) status() *v1alpha1.Status { return &c.fence.Status }

func (c *cluster) annotate(key, value string) {
	if c.fence.Annotations == nil {
		c.fence.Annotations = map[string]string{}
	}
	c.fence.Annotations[key] = value
}

func (c *cluster) elapsed() time.Duration { return c.now.Wall.Sub(epoch) }

// pass lets time pass.
func (c *cluster) pass(d time.Duration) {
	c.now.Wall, c.now.Monotonic = c.now.Wall.Add(d), c.now.Monotonic+d
	for _, p := range c.plugs {
		if p.wanted != "" && c.elapsed() >= p.due {
			p.on, p.wanted = p.wanted == agent.ActionOn, ""
		}
	}
	power := c.powered()
	if c.dumping = c.dumping && power; c.dumping {
		const every = 10 * time.Second
		if ago := c.elapsed() % every; ago < d {
			c.dump = clock.Reading{Wall: c.now.Wall.Add(-ago), Monotonic: c.now.Monotonic - ago}
		}
	}
	switch {
	case !power:
		c.bootsAt, c.renews = 0, false
		c.node.Ready, c.node.Failing = false, true
	case c.boots && c.bootsAt == 0 && c.touched():
		c.bootsAt = c.elapsed() + time.Minute
	case c.bootsAt > 0 && c.elapsed() >= c.bootsAt && !c.renews:
		c.back()
		c.node.BootID = "boot 2"
	}
	if c.renews {
		c.node.Renewal = fmt.Sprint(int(c.elapsed() / (10 * time.Second)))
	}
}

// back makes the node work.
func (c *cluster) back() { c.node.Ready, c.node.Failing, c.renews = true, false, true }

func (c *cluster) touched() bool {
	for _, d := range c.status().Devices {
		if d.Touched && d.Level > 0 && d.State == v1alpha1.DeviceOnIntent || d.State == v1alpha1.DeviceOn {
			return true
		}
	}
	return false
}

// powered says that every level leaves the machine its power.
func (c *cluster) powered() bool {
	for _, level := range c.plan.PowerManagement {
		if !slices.ContainsFunc(level.Off(), func(m nodeplan.Method) bool { return c.plugs[m.Device.Key].on }) {
			return false
		}
	}
	return true
}

func (c *cluster) decide() statemachine.Step {
	known := map[string]bool{}
	for name := range c.plugs {
		known[name] = !c.unknown
	}
	return statemachine.Transition(statemachine.Input{
		Unresolved: c.unresolved, FenceReadyNodes: c.fenceReady, Known: known,
		Fence: c.fence, Plan: c.plan, Policy: c.policy, Memory: c.memory, Trigger: c.trigger, Dump: c.dump, Now: c.now,
	})
}

// step does one thing, and returns what.
func (c *cluster) step() statemachine.Step {
	step := c.decide()
	before := c.fence.Status.DeepCopy()
	o, done := statemachine.Outcome{Began: c.now}, step
	c.steps = append(c.steps, step)
	switch step := step.(type) {
	case statemachine.Write:
		c.line("%s: %s (%s/%s)", step.Reason, step.Status.Phase, step.Status.Step, step.Status.Status)
		if !c.refused {
			c.fence.Status = *step.Status.DeepCopy()
		}
		o.Failed = c.lost || c.refused
		c.lost, c.refused = false, false
		require.LessOrEqual(c.t, len(step.Status.Evidence), 64)
		require.LessOrEqual(c.t, len(step.Status.Jobs), 64)
		require.LessOrEqual(c.t, len(step.Status.History), 16)
		c.pass(5 * time.Millisecond)
	case statemachine.Look:
		c.pass(c.looks)
		o.Node = c.node
		if c.shown != nil {
			c.shown(&o.Node)
		}
	case statemachine.Read:
		c.pass(100 * time.Millisecond)
		for _, name := range step.Devices {
			o.Powers = append(o.Powers, c.plugs[name].read())
		}
	case statemachine.Call:
		require.False(c.t, step.Late(c.now))
		c.line("%s %s", step.Op.Action, step.Device)
		p := c.plugs[step.Device]
		if step.Op.Action == agent.ActionOn {
			require.NotEqual(c.t, v1alpha1.TaintOurs, c.node.OutOfService, "on with our taint on the node:\n%s",
				c.transcript())
		}
		p.commands = append(p.commands, step.Op.Action)
		o.Sent = p.read() == agent.PowerOn || step.Op.Action == agent.ActionOn
		if !p.deaf && !p.suspended {
			p.wanted, p.due = step.Op.Action, c.elapsed()+p.delay
		}
		c.pass(time.Second)
	case statemachine.Act:
		c.line("%s", step.Method)
		c.methods = append(c.methods, step.Method)
		if c.failing[step.Method] > 0 {
			c.failing[step.Method]--
			o.Failed = true
		}
		c.pass(10 * time.Millisecond)
	case statemachine.Release:
		require.False(c.t, step.Late(c.now))
		c.release(step, &o)
	case statemachine.Wait:
		if step.For == 0 {
			return step
		}
		if len(step.Ahead) > 0 {
			c.pass(100 * time.Millisecond)
			for _, name := range step.Ahead {
				o.Powers = append(o.Powers, c.plugs[name].read())
			}
			done = statemachine.Read{Devices: step.Ahead}
			break
		}
		c.pass(step.For)
	case statemachine.SetFinalizer:
		if step.Present {
			c.fence.Finalizers = append(c.fence.Finalizers, v1alpha1.Finalizer)
		} else {
			c.fence.Finalizers = nil
		}
	case statemachine.DropAnnotation:
		if step.Why == "" {
			c.line("taken: %s", step.Key)
		} else {
			c.line("refused: %s", step.Why)
		}
		delete(c.fence.Annotations, step.Key)
	case statemachine.Delete:
		c.line("delete the record")
		c.deleted = true
	}
	o.Ended = c.now
	c.memory = c.memory.After(before, done, o)
	return step
}

func (p *plug) read() agent.Power {
	p.foreign = p.foreign && p.silent
	switch {
	case p.silent:
		return agent.PowerUnknown
	case p.on && !p.suspended:
		return agent.PowerOn
	}
	return agent.PowerOff
}

func (c *cluster) release(step statemachine.Release, o *statemachine.Outcome) {
	storage := ""
	if len(step.Storage) > 0 {
		storage = " using the storage of " + strings.Join(step.Storage, ", ")
	}
	switch step.Part {
	case statemachine.Taint, statemachine.DeletePods:
		c.judge(step)
	}
	switch step.Part {
	case statemachine.Taint:
		require.False(c.t, c.emptied < 0 || c.elapsed() < c.emptied+250*time.Millisecond,
			"the successors of pods may be deleted:\n%s", c.transcript())
		c.node.OutOfService = v1alpha1.TaintOurs
	case statemachine.Untaint:
		c.node.OutOfService = v1alpha1.TaintNone
	case statemachine.DeletePods:
		c.pods = max(0, c.pods-10)
		o.Left, o.Pods = c.pods > 0, v1alpha1.Pods{Listed: 3, Deleted: 3}
	case statemachine.AwaitDetach:
		o.Left = c.volumes > 0
		c.volumes = max(0, c.volumes-1)
	}
	c.line("%s%s", step.Part, storage)
	c.pass(50 * time.Millisecond)
	if step.Part == statemachine.DeletePods && !o.Left {
		c.emptied = c.elapsed()
	}
}

// judge finds that what pods are taken from has no power, or cannot reach its storage, unless an
// admin said so, or somebody has switched it on since it was read.
func (c *cluster) judge(step statemachine.Release) {
	for _, e := range c.status().Evidence {
		if e.Source == v1alpha1.SourceManual {
			return
		}
	}
	for _, p := range c.plugs {
		if p.foreign {
			return
		}
	}
	if c.dumping && c.status().Phase != v1alpha1.PhaseReleasing {
		require.False(c.t, c.node.Ready, "the node is Ready:\n%s", c.transcript())
		return
	}
	for _, name := range step.Storage {
		require.False(c.t, c.plugs[name].on, "%s is on:\n%s", name, c.transcript())
	}
	if len(step.Storage) == 0 {
		require.False(c.t, c.powered(), "the machine has power:\n%s", c.transcript())
	}
}

func (c *cluster) line(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf("%6s ", c.elapsed().Round(time.Second))+fmt.Sprintf(format, args...))
}

const manySteps = 5000

// until does one thing after another, up to and with the write of a reason.
func (c *cluster) until(reason statemachine.Reason) {
	c.t.Helper()
	for range manySteps {
		if w, ok := c.step().(statemachine.Write); ok && w.Reason == reason {
			return
		}
	}
	require.Fail(c.t, "never comes", "%s:\n%s", reason, c.transcript())
}

// phase does one thing after another until a phase is entered.
func (c *cluster) phase(phase v1alpha1.Phase) {
	c.t.Helper()
	for range manySteps {
		if c.status().Phase == phase {
			return
		}
		c.step()
	}
	require.Fail(c.t, "never comes", "%s:\n%s", phase, c.transcript())
}

// next does one thing after another until one is of a kind that changes something.
func next[T statemachine.Step](c *cluster) T {
	c.t.Helper()
	for range manySteps {
		if step, ok := c.step().(T); ok {
			return step
		}
	}
	var none T
	require.Fail(c.t, "never comes", "%T:\n%s", none, c.transcript())
	return none
}

// rest is what happens within a time.
func (c *cluster) rest(d time.Duration) {
	for end := c.elapsed() + d; c.elapsed() < end && !c.deleted; {
		if w, ok := c.step().(statemachine.Wait); ok && w.For == 0 {
			return
		}
	}
}

func (c *cluster) transcript() string { return strings.Join(c.lines, "\n") + "\n" }
