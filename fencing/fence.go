package fencing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

const (
	// requestTimeout limits each request to the API server.
	requestTimeout = 10 * time.Second
	// shortestPause and longestPause bound the pauses between retries.
	shortestPause = 100 * time.Millisecond
	longestPause  = 2 * time.Second
)

// fence executes the steps of the state machine for the record of one node, and reports their
// outcomes to it.
type fence struct {
	config  *Config
	client  client
	clock   clock.Clock
	state   *clusterState
	plans   *planCache
	devices *devices
	dumps   *dumps
	checks  *checks

	node  string
	log   *zap.Logger
	woken <-chan struct{} // receives when something has changed

	record    *v1alpha1.NodeFence // nil if it must be read
	version   string              // last read or written by this process
	memory    statemachine.Memory
	plan      nodeplan.Plan // of the last decision
	progress  cluster.Progress
	seen      *corev1.Node // as it was last read
	renewals  int          // of proofs since one was last used
	retries   *kube.Failures
	alarmed   string // what it was last reported to wait for
	alarmedAt clock.Reading
	stuck     error // why this process must do nothing more: an agent could not be ended
	failures  failures
	prepared  map[string]preparation // readings, by device
	turn      func()                 // ends the turn of the command that is about to be sent, if there is one
}

// errGone means that the record no longer exists.
var errGone = errors.New("the record is gone")

// carryOut executes the fence until the record is gone and the node has no reason for one, or ctx
// ends.
func (f *fence) carryOut(ctx context.Context) {
	pause := shortestPause
	defer f.endTurn()
	defer f.keepPrepared(ctx)
	for ctx.Err() == nil {
		err := f.step(ctx)
		if err != nil {
			f.endTurn()
		}
		switch {
		case errors.Is(err, errGone):
			return
		case err == nil && f.failures.recent(f.clock.Now()): // between two tries of a step
			continue
		case err == nil:
			pause = shortestPause
			f.retries.Over("step")
			continue
		}
		kube.RoleOf(ctx).Refused(err)
		if ctx.Err() == nil {
			f.retries.Note("step", err, "fence step failed, retrying", "")
		}
		f.pause(ctx, pause)
		pause = min(2*pause, longestPause)
	}
}

// step decides on one step and executes it.
func (f *fence) step(ctx context.Context) error {
	if f.record == nil {
		if err := f.read(ctx); err != nil || f.record == nil {
			return err
		}
	}
	if f.stuck != nil {
		return cmp.Or(f.sayStuck(ctx), f.stuck)
	}
	in, err := f.input(ctx)
	if err != nil {
		return err
	}
	step := f.gate(ctx, in, statemachine.Transition(in))
	switch step.(type) {
	case statemachine.Look, statemachine.Call:
	default:
		f.endTurn()
	}
	err = f.execute(ctx, step)
	if counts(step, err) {
		f.failures.count(f.clock.Now(), err)
	}
	switch step.(type) {
	case statemachine.Look, statemachine.Read:
		if err == nil {
			f.renewals++
		}
	case statemachine.Call, statemachine.Release: // which may have been too late
	default:
		f.renewals = 0
	}
	return err
}

// endTurn lets others call the device of a command that was sent, or will not be.
func (f *fence) endTurn() {
	if f.turn != nil {
		f.turn()
		f.turn = nil
	}
}

// read reads the record. If the node fails and has no record, read creates one, which starts a
// fence.
func (f *fence) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	known := f.state.fence(f.node) // before the read: another record may be created afterwards
	record, err := f.client.fence(ctx, f.node)
	if absent(err, f.node) {
		if known != nil {
			f.state.forgetRecord(known)
		}
		if f.state.trigger(f.node) == nil || f.config.Leadership.Remaining() <= 0 {
			return errGone
		}
		record, err = f.client.create(ctx, f.node, nil)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // another process was first: read it now
	case err != nil:
		return err
	// the names of two nodes are so long that they have one hash
	case record.Node != f.node:
		return fmt.Errorf("the record %s is that of node %q", record.Name, record.Node)
	}
	f.adopt(record)
	return nil
}

// adopt continues with a version of the record that was read. If it is not the last version of this
// process, another writer may have sent commands, and earlier readings of this process prove
// nothing.
func (f *fence) adopt(record *v1alpha1.NodeFence) {
	if record.ResourceVersion != f.version {
		f.memory = f.memory.Adopt(f.clock.Now(), &record.Status)
	}
	f.wrote(record)
}

// wrote continues with a version of the record that this process has written.
func (f *fence) wrote(record *v1alpha1.NodeFence) {
	f.record, f.version = record, record.ResourceVersion
	f.state.observeRecord(record)
}

// input returns the input of the next decision.
func (f *fence) input(ctx context.Context) (statemachine.Input, error) {
	in := statemachine.Input{
		Fence: f.record, Memory: f.memory, Trigger: f.state.trigger(f.node),
	}
	s := &f.record.Status
	plan, err := f.plans.plan(ctx, f.node, s.ConfigHash)
	if ctx.Err() != nil {
		return in, ctx.Err()
	}
	f.plan = plan
	if err == nil {
		in.Plan, in.Known = plan, f.checks.known(f.node, s, plan)
		err = f.config.usable(plan)
	}
	if err != nil {
		in.Plan, in.Unresolved = nodeplan.Defaults(), err.Error()
	}
	in.Plan.RestartDelay, in.Plan.DetachTimeout, in.Plan.History =
		f.config.RestartDelay, f.config.DetachTimeout, f.config.History
	if len(s.Triggers) > 0 {
		in.FenceReadyNodes = slices.Contains(f.config.Limits.FenceReadyNodes, s.Triggers[0].Type)
	}
	if in.Plan.Kdump {
		// A fence that has begun does not need dumps. Another one is held, because the node is not
		// fence-ready.
		_ = f.dumps.want(ctx)
		in.Dump = f.dumps.of(f.node, s.NodeUID)
	}
	in.Now = f.clock.Now()
	in.Trouble = f.trouble(in.Now)
	return in, nil
}

// gate asks the policy about a step that needs its permission. It returns the step to execute.
func (f *fence) gate(ctx context.Context, in statemachine.Input, step statemachine.Step) statemachine.Step {
	write, ok := step.(statemachine.Write)
	if !ok {
		return step
	}
	target, asked := f.target(in, write.Reason)
	if !asked {
		return step
	}
	storage := f.state.storageReachable(ctx)
	var d policy.Decision
	switch {
	case target.Act == policy.Commission:
		d = f.decideCommission(ctx, target, storage)
	case target.Switched:
		d = f.state.decideContinue(target, storage)
	default:
		d = f.state.decideStart(target, storage)
	}
	if hook := f.config.Hooks.OnDecision; hook != nil {
		hook(f.node, d)
	}
	if d.Verdict == policy.Allow {
		return step
	}
	in.Policy = statemachine.Policy{Admit: &d}
	if target.Switched || target.Act == policy.Commission {
		in.Policy = statemachine.Policy{Continue: &d}
	}
	return statemachine.Transition(in)
}

// target returns the question for the policy before a transition. asked is false if the transition
// needs no permission.
func (f *fence) target(in statemachine.Input, reason statemachine.Reason) (target policy.Target, asked bool) {
	s := &f.record.Status
	act := policy.PowerOff
	switch {
	case reason == statemachine.OffIntent && s.Phase == v1alpha1.PhaseCommissioning:
		return f.commissionTarget(), true
	case reason == statemachine.NotReadyTimeout &&
		slices.ContainsFunc(in.Plan.Isolation, func(m nodeplan.Method) bool { return m.Device != nil }):
		act = policy.SwitchOff
	case reason == statemachine.NotReadyTimeout, reason == statemachine.DumpSeen:
		act = policy.Isolate
	case reason == statemachine.OffIntent && s.Phase == v1alpha1.PhaseIsolating:
		act = policy.SwitchOff
	case reason != statemachine.OffIntent && reason != statemachine.PowerWaitOver:
		return policy.Target{}, false
	}
	target = policy.Target{
		Name: f.node, UID: string(s.NodeUID), Act: act, NotReadyFor: given(in.Plan.NotReadyFor),
		Switched:     touched(f.record) && fenceState(f.record) != policy.FenceBooting,
		WithoutPower: len(in.Plan.PowerManagement) == 0,
		// An admin has started this incident.
		Restarted: f.record.Annotations[v1alpha1.AnnotationRestart] == strconv.FormatInt(s.Incident-1, 10),
		Repeating: s.Hold != nil && s.Hold.Reason == policy.ReasonRepeats,
	}
	for _, level := range in.Plan.PowerManagement {
		target.Devices += len(level.Off())
	}
	if f.config.RequireCommissioned && !target.Switched {
		target.Unproved = f.state.unproved(f.node, f.plan)
	}
	if len(s.Triggers) > 0 {
		target.Trigger = s.Triggers[0].Type
	}
	return target, true
}

// pause waits for d or until something has changed.
func (f *fence) pause(ctx context.Context, d time.Duration) (changed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	if d == 0 {
		timer.Stop()
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-f.woken:
		f.memory = f.memory.Changed()
		if known := f.state.fence(f.node); known == nil || f.record == nil ||
			known.ResourceVersion != f.record.ResourceVersion {
			f.record = nil
		}
		return true
	}
	return false
}

// look reads the node, its Lease and the record concurrently, because what they prove is valid for
// only a second.
func (f *fence) look(ctx context.Context) error {
	began := f.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var node statemachine.Node
	var failed error
	var looking sync.WaitGroup
	looking.Go(func() { node, failed = f.lookAtNode(ctx) })
	record, err := f.client.fence(ctx, f.node)
	looking.Wait()
	if absent(err, f.node) {
		return errGone
	}
	if err := cmp.Or(err, failed); err != nil {
		return err
	}
	if record.ResourceVersion != f.version {
		f.adopt(record)
		return nil
	}
	before := f.record.Status
	f.memory = f.memory.After(&before, statemachine.Look{},
		statemachine.Outcome{Began: began, Ended: f.clock.Now(), Node: node})
	return nil
}

func (f *fence) lookAtNode(ctx context.Context) (statemachine.Node, error) {
	var renewal string
	var failed error
	var looking sync.WaitGroup
	looking.Go(func() { renewal, failed = f.client.renewal(ctx, f.node) })
	n, err := f.client.node(ctx, f.node)
	looking.Wait()
	if kube.Absent(err, corev1.Resource("nodes"), f.node) {
		return statemachine.Node{Missing: true}, nil
	}
	if err := cmp.Or(err, failed); err != nil {
		return statemachine.Node{}, err
	}
	f.seen = n
	f.state.nodes.Node(n, time.Now())
	return statemachine.Node{
		UID: n.UID, Ready: ready(n), Failing: f.state.failing(n, f.record), Renewal: renewal,
		Leaving: n.DeletionTimestamp != nil || f.state.leaving(n),
		BootID:  n.Status.NodeInfo.BootID, ProviderID: n.Spec.ProviderID,
		OutOfService: cluster.OutOfService(n), Cordoned: n.Spec.Unschedulable,
	}, nil
}

// given returns a configured wait for the policy, to which 0 means the default: the shortest wait
// takes its place.
func given(wait time.Duration) time.Duration { return max(wait, 1) }
