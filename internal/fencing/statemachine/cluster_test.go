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

// plug is a device of a rig.
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

// rig is a machine, its node and the controller in one thread: what a real controller does, without
// the requests.
type rig struct {
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

func newRig(t *testing.T, plan nodeplan.Plan) *rig {
	t.Helper()
	require.NoError(t, statemachine.Validate(plan))
	r := &rig{
		t: t, plan: plan, now: clock.Reading{Wall: epoch, Monotonic: time.Hour}, looks: 10 * time.Millisecond,
		boots: true,
		fence: &v1alpha1.NodeFence{
			ObjectMeta: metav1.ObjectMeta{Name: "node-fence-n", UID: "c0ffee00-1234-5678"}, Node: "n",
		},
		node:  statemachine.Node{UID: "node's uid", Failing: true, BootID: "boot 1", Renewal: "0"},
		plugs: map[string]*plug{}, failing: map[string]int{},
	}
	for _, d := range plan.Devices() {
		r.plugs[d.Key] = &plug{on: true}
	}
	r.restart()
	return r
}

// restart is a crash of the controller, and the next one.
func (r *rig) restart() {
	r.memory, r.emptied, r.dump = statemachine.NewMemory(r.now), -1, clock.Reading{}
}

func (r *rig) status() *v1alpha1.Status { return &r.fence.Status }

func (r *rig) annotate(key, value string) {
	if r.fence.Annotations == nil {
		r.fence.Annotations = map[string]string{}
	}
	r.fence.Annotations[key] = value
}

func (r *rig) elapsed() time.Duration { return r.now.Wall.Sub(epoch) }

// pass lets time pass.
func (r *rig) pass(d time.Duration) {
	r.now.Wall, r.now.Monotonic = r.now.Wall.Add(d), r.now.Monotonic+d
	for _, p := range r.plugs {
		if p.wanted != "" && r.elapsed() >= p.due {
			p.on, p.wanted = p.wanted == agent.ActionOn, ""
		}
	}
	power := r.powered()
	if r.dumping = r.dumping && power; r.dumping {
		const every = 10 * time.Second
		if ago := r.elapsed() % every; ago < d {
			r.dump = clock.Reading{Wall: r.now.Wall.Add(-ago), Monotonic: r.now.Monotonic - ago}
		}
	}
	switch {
	case !power:
		r.bootsAt, r.renews = 0, false
		r.node.Ready, r.node.Failing = false, true
	case r.boots && r.bootsAt == 0 && r.touched():
		r.bootsAt = r.elapsed() + time.Minute
	case r.bootsAt > 0 && r.elapsed() >= r.bootsAt && !r.renews:
		r.back()
		r.node.BootID = "boot 2"
	}
	if r.renews {
		r.node.Renewal = fmt.Sprint(int(r.elapsed() / (10 * time.Second)))
	}
}

// back makes the node work.
func (r *rig) back() { r.node.Ready, r.node.Failing, r.renews = true, false, true }

func (r *rig) touched() bool {
	for _, d := range r.status().Devices {
		if d.Touched && d.Level > 0 && d.State == v1alpha1.DeviceOnIntent || d.State == v1alpha1.DeviceOn {
			return true
		}
	}
	return false
}

// powered says that every level leaves the machine its power.
func (r *rig) powered() bool {
	for _, level := range r.plan.PowerManagement {
		if !slices.ContainsFunc(level.Off(), func(m nodeplan.Method) bool { return r.plugs[m.Device.Key].on }) {
			return false
		}
	}
	return true
}

func (r *rig) decide() statemachine.Step {
	known := map[string]bool{}
	for name := range r.plugs {
		known[name] = !r.unknown
	}
	return statemachine.Transition(statemachine.Input{
		Unresolved: r.unresolved, FenceReadyNodes: r.fenceReady, Known: known,
		Fence: r.fence, Plan: r.plan, Policy: r.policy, Memory: r.memory, Trigger: r.trigger, Dump: r.dump, Now: r.now,
	})
}

// step does one thing, and returns what.
func (r *rig) step() statemachine.Step {
	step := r.decide()
	before := r.fence.Status.DeepCopy()
	o, done := statemachine.Outcome{Began: r.now}, step
	r.steps = append(r.steps, step)
	switch step := step.(type) {
	case statemachine.Write:
		r.line("%s: %s (%s/%s)", step.Reason, step.Status.Phase, step.Status.Step, step.Status.Status)
		if !r.refused {
			r.fence.Status = *step.Status.DeepCopy()
		}
		o.Failed = r.lost || r.refused
		r.lost, r.refused = false, false
		require.LessOrEqual(r.t, len(step.Status.Evidence), 64)
		require.LessOrEqual(r.t, len(step.Status.Jobs), 64)
		require.LessOrEqual(r.t, len(step.Status.History), 16)
		r.pass(5 * time.Millisecond)
	case statemachine.Look:
		r.pass(r.looks)
		o.Node = r.node
		if r.shown != nil {
			r.shown(&o.Node)
		}
	case statemachine.Read:
		r.pass(100 * time.Millisecond)
		for _, name := range step.Devices {
			o.Powers = append(o.Powers, r.plugs[name].read())
		}
	case statemachine.Call:
		require.False(r.t, step.Late(r.now))
		r.line("%s %s", step.Op.Action, step.Device)
		p := r.plugs[step.Device]
		if step.Op.Action == agent.ActionOn {
			require.NotEqual(r.t, v1alpha1.TaintOurs, r.node.OutOfService, "on with our taint on the node:\n%s",
				r.transcript())
		}
		p.commands = append(p.commands, step.Op.Action)
		o.Sent = p.read() == agent.PowerOn || step.Op.Action == agent.ActionOn
		if !p.deaf && !p.suspended {
			p.wanted, p.due = step.Op.Action, r.elapsed()+p.delay
		}
		r.pass(time.Second)
	case statemachine.Act:
		r.line("%s", step.Method)
		r.methods = append(r.methods, step.Method)
		if r.failing[step.Method] > 0 {
			r.failing[step.Method]--
			o.Failed = true
		}
		r.pass(10 * time.Millisecond)
	case statemachine.Release:
		require.False(r.t, step.Late(r.now))
		r.release(step, &o)
	case statemachine.Wait:
		if step.For == 0 {
			return step
		}
		if len(step.Ahead) > 0 {
			r.pass(100 * time.Millisecond)
			for _, name := range step.Ahead {
				o.Powers = append(o.Powers, r.plugs[name].read())
			}
			done = statemachine.Read{Devices: step.Ahead}
			break
		}
		r.pass(step.For)
	case statemachine.SetFinalizer:
		if step.Present {
			r.fence.Finalizers = append(r.fence.Finalizers, v1alpha1.Finalizer)
		} else {
			r.fence.Finalizers = nil
		}
	case statemachine.DropAnnotation:
		if step.Why == "" {
			r.line("taken: %s", step.Key)
		} else {
			r.line("refused: %s", step.Why)
		}
		delete(r.fence.Annotations, step.Key)
	case statemachine.Delete:
		r.line("delete the record")
		r.deleted = true
	}
	o.Ended = r.now
	r.memory = r.memory.After(before, done, o)
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

func (r *rig) release(step statemachine.Release, o *statemachine.Outcome) {
	storage := ""
	if len(step.Storage) > 0 {
		storage = " using the storage of " + strings.Join(step.Storage, ", ")
	}
	switch step.Part {
	case statemachine.Taint, statemachine.DeletePods:
		r.judge(step)
	}
	switch step.Part {
	case statemachine.Taint:
		require.False(r.t, r.emptied < 0 || r.elapsed() < r.emptied+250*time.Millisecond,
			"the successors of pods may be deleted:\n%s", r.transcript())
		r.node.OutOfService = v1alpha1.TaintOurs
	case statemachine.Untaint:
		r.node.OutOfService = v1alpha1.TaintNone
	case statemachine.DeletePods:
		r.pods = max(0, r.pods-10)
		o.Left, o.Pods = r.pods > 0, v1alpha1.Pods{Listed: 3, Deleted: 3}
	case statemachine.AwaitDetach:
		o.Left = r.volumes > 0
		r.volumes = max(0, r.volumes-1)
	}
	r.line("%s%s", step.Part, storage)
	r.pass(50 * time.Millisecond)
	if step.Part == statemachine.DeletePods && !o.Left {
		r.emptied = r.elapsed()
	}
}

// judge finds that what pods are taken from has no power, or cannot reach its storage, unless an
// admin said so, or somebody has switched it on since it was read.
func (r *rig) judge(step statemachine.Release) {
	for _, e := range r.status().Evidence {
		if e.Source == v1alpha1.SourceManual {
			return
		}
	}
	for _, p := range r.plugs {
		if p.foreign {
			return
		}
	}
	if r.dumping && r.status().Phase != v1alpha1.PhaseReleasing {
		require.False(r.t, r.node.Ready, "the node is Ready:\n%s", r.transcript())
		return
	}
	for _, name := range step.Storage {
		require.False(r.t, r.plugs[name].on, "%s is on:\n%s", name, r.transcript())
	}
	if len(step.Storage) == 0 {
		require.False(r.t, r.powered(), "the machine has power:\n%s", r.transcript())
	}
}

func (r *rig) line(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf("%6s ", r.elapsed().Round(time.Second))+fmt.Sprintf(format, args...))
}

const manySteps = 5000

// until does one thing after another, up to and with the write of a reason.
func (r *rig) until(reason statemachine.Reason) {
	r.t.Helper()
	for range manySteps {
		if w, ok := r.step().(statemachine.Write); ok && w.Reason == reason {
			return
		}
	}
	require.Fail(r.t, "never comes", "%s:\n%s", reason, r.transcript())
}

// phase does one thing after another until a phase is entered.
func (r *rig) phase(phase v1alpha1.Phase) {
	r.t.Helper()
	for range manySteps {
		if r.status().Phase == phase {
			return
		}
		r.step()
	}
	require.Fail(r.t, "never comes", "%s:\n%s", phase, r.transcript())
}

// next does one thing after another until one is of a kind that changes something.
func next[T statemachine.Step](r *rig) T {
	r.t.Helper()
	for range manySteps {
		if step, ok := r.step().(T); ok {
			return step
		}
	}
	var none T
	require.Fail(r.t, "never comes", "%T:\n%s", none, r.transcript())
	return none
}

// rest is what happens within a time.
func (r *rig) rest(d time.Duration) {
	for end := r.elapsed() + d; r.elapsed() < end && !r.deleted; {
		if w, ok := r.step().(statemachine.Wait); ok && w.For == 0 {
			return
		}
	}
}

func (r *rig) transcript() string { return strings.Join(r.lines, "\n") + "\n" }
