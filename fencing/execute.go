package fencing

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// execute executes one step. The caller retries after an error.
func (f *fence) execute(ctx context.Context, step statemachine.Step) error {
	switch step := step.(type) {
	case statemachine.Write:
		return f.write(ctx, step)
	case statemachine.Look:
		return f.look(ctx)
	case statemachine.Read:
		_, err := f.readPowers(ctx, step)
		return err
	case statemachine.Call:
		return f.call(ctx, step)
	case statemachine.Act:
		return f.act(ctx, step)
	case statemachine.Release:
		return f.release(ctx, step)
	case statemachine.Wait:
		f.reportBlocked()
		return f.await(ctx, step)
	case statemachine.SetFinalizer:
		return f.change(ctx, step, func(m *metav1.ObjectMeta) {
			m.Finalizers = slices.DeleteFunc(m.Finalizers, func(name string) bool { return name == v1alpha1.Finalizer })
			if step.Present {
				m.Finalizers = append(m.Finalizers, v1alpha1.Finalizer)
			}
		})
	case statemachine.DropAnnotation:
		if step.Why != "" {
			f.config.event(f.record, corev1.EventTypeWarning, "Refused", "Confirm",
				"%s is not taken: %s", step.Key, step.Why)
		}
		return f.change(ctx, step, func(m *metav1.ObjectMeta) { delete(m.Annotations, step.Key) })
	case statemachine.Delete:
		return f.delete(ctx)
	}
	return fmt.Errorf("fencing: a step that is not known: %T", step)
}

// write writes the status. After a failed write the record is read again, because it may have been
// written.
func (f *fence) write(ctx context.Context, step statemachine.Write) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before, outcome := f.record.Status, statemachine.Outcome{Began: f.clock.Now()}
	next := f.record.DeepCopy()
	next.Status = step.Status
	written, err := f.client.writeStatus(ctx, next)
	outcome.Ended, outcome.Failed = f.clock.Now(), err != nil
	f.memory = f.memory.After(&before, step, outcome)
	if err != nil {
		f.record = nil
		if apierrors.IsConflict(err) || absent(err, f.node) {
			return nil
		}
		if refused(err) {
			f.state.giveBack(f.node)
		}
		if step.Reason == statemachine.Held && f.failures.persist(outcome.Ended) {
			f.sayUnwritten(next)
		}
		return fmt.Errorf("write %s: %w", step.Reason, err)
	}
	if before.Phase != written.Status.Phase {
		f.progress = cluster.Progress{}
	}
	f.wrote(written)
	f.announce(before, written, step.Reason)
	return nil
}

// announce reports a written status by log, hooks and Events.
func (f *fence) announce(before v1alpha1.Status, now *v1alpha1.NodeFence, reason statemachine.Reason) {
	s := &now.Status
	f.log.Info("fence transition", zap.String("transition", string(reason)), zap.String("phase", string(s.Phase)),
		zap.Int64("incident", s.Incident))
	hooks := f.config.Hooks
	if hooks.OnTransition != nil {
		hooks.OnTransition(now, string(reason))
	}
	if hooks.OnBlocked != nil && s.Hold != nil && (before.Hold == nil || before.Hold.Reason != s.Hold.Reason) {
		hooks.OnBlocked(f.node, *s.Hold)
	}
	f.reportBlocked()
	if reason == statemachine.DumpSeen {
		f.config.event(now, corev1.EventTypeNormal, string(reason), "Release",
			"incident %d of node %s: its kernel writes a dump: its pods are released, and its power stays on until "+
				"that has ended, for %v at most", s.Incident, f.node, f.plan.KdumpTimeout)
	}
	if before.Phase == s.Phase {
		return
	}
	kind := corev1.EventTypeNormal
	if s.Phase == v1alpha1.PhaseError || s.Phase == v1alpha1.PhaseGivenUp {
		kind = corev1.EventTypeWarning
	}
	f.config.event(now, kind, string(reason), "Fence", "incident %d of node %s: %s", s.Incident, f.node, s.Phase)
	if s.Commission != nil &&
		(before.Phase == v1alpha1.PhaseCommissioning || s.Phase == v1alpha1.PhaseCommissioning || s.Phase.Ended()) {
		f.announceCommission(reason, s)
	}
}

// change updates the metadata of the record.
func (f *fence) change(ctx context.Context, step statemachine.Step, change func(*metav1.ObjectMeta)) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := f.record.Status
	changed, err := f.client.update(ctx, f.record, change)
	f.memory = f.memory.After(&before, step, statemachine.Outcome{Failed: err != nil})
	if err != nil {
		f.record = nil
		if apierrors.IsConflict(err) || absent(err, f.node) {
			return nil
		}
		return err
	}
	f.wrote(changed)
	return nil
}

func (f *fence) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	record := f.record
	f.record = nil
	err := f.client.delete(ctx, record)
	if err == nil || absent(err, f.node) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// device returns a device of the last decision's configuration.
func (f *fence) device(name string) (*nodeplan.Device, error) {
	d, ok := f.plan.Device(name)
	if !ok {
		return nil, fmt.Errorf("device %s is not in the configuration any more", name)
	}
	return d, nil
}

// watchEvery is the interval at which a waiting fence reads devices that may go off.
const watchEvery = 5 * time.Second

// preparation is a reading of a device that has begun, but for the request to the device.
type preparation struct {
	device *nodeplan.Device
	power  func(ctx context.Context) (agent.Power, error)
	cancel context.CancelFunc
}

// prepare prepares readings of devices, so that they take less time, and ends all others.
func (f *fence) prepare(ctx context.Context, devices ...string) {
	f.keepPrepared(ctx, devices...)
	preparer, ok := f.config.Agents.(agent.Preparer)
	if !ok {
		return
	}
	for _, name := range devices {
		d, err := f.device(name)
		if _, ok := f.prepared[name]; ok || err != nil {
			continue
		}
		target, err := f.reach(ctx, d)
		if err == nil { // or the reading fails, and says why
			preparing, cancel := context.WithCancel(ctx)
			f.prepared[name] = preparation{d, preparer.Prepare(preparing, target), cancel}
		}
	}
}

// keepPrepared ends what was prepared for other devices, or for another configuration of them.
func (f *fence) keepPrepared(ctx context.Context, devices ...string) {
	for name, p := range f.prepared {
		if d, err := f.device(name); err != nil || d != p.device || !slices.Contains(devices, name) {
			p.cancel()
			_, _ = p.power(ctx) // returns when nothing of it is left
			delete(f.prepared, name)
		}
	}
}

// await waits until the time is over or a watched device reads off.
func (f *fence) await(ctx context.Context, step statemachine.Wait) error {
	if len(step.Ahead) > 0 {
		select {
		case f.devices.ahead <- struct{}{}:
			defer func() { <-f.devices.ahead }()
			_, err := f.readPowers(ctx, statemachine.Read{Devices: step.Ahead})
			return err
		default: // others read: there may be many, and only some may start
		}
	}
	f.prepare(ctx, step.Next...)
	if len(step.Watch) == 0 {
		f.pause(ctx, step.For)
		return nil
	}
	began := f.clock.Now()
	for {
		left := step.For - f.clock.Now().SinceAtLeast(began)
		if left <= 0 || f.pause(ctx, min(left, watchEvery)) || ctx.Err() != nil {
			return ctx.Err()
		}
		if left <= watchEvery {
			return nil
		}
		powers, err := f.readPowers(ctx, statemachine.Read{Devices: step.Watch})
		if err != nil || slices.Contains(powers, agent.PowerOff) {
			return err
		}
	}
}

// readPowers reads devices concurrently.
func (f *fence) readPowers(ctx context.Context, step statemachine.Read) ([]agent.Power, error) {
	plugs := map[string][]int{} // by the device that has them
	for i, name := range step.Devices {
		queue := f.queue(name)
		plugs[queue] = append(plugs[queue], i)
	}
	for _, queue := range slices.Sorted(maps.Keys(plugs)) { // in one order, or fences wait for each other
		end, err := f.devices.turns.take(ctx, queue, true)
		if err != nil {
			return nil, err
		}
		defer end()
	}
	f.keepPrepared(ctx, step.Devices...)
	before := f.record.Status
	outcome := statemachine.Outcome{Began: f.clock.Now(), Powers: make([]agent.Power, len(step.Devices))}
	var all sync.WaitGroup
	for _, of := range plugs {
		all.Go(func() {
			for _, i := range of {
				outcome.Powers[i] = f.power(ctx, step.Devices[i])
			}
		})
	}
	all.Wait()
	for _, p := range f.prepared {
		p.cancel()
	}
	clear(f.prepared)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	outcome.Ended = f.clock.Now()
	f.memory = f.memory.After(&before, step, outcome)
	return outcome.Powers, nil
}

// queue returns the name of the queue for calls to a device.
func (f *fence) queue(name string) string {
	if d, ok := f.plan.Device(name); ok {
		return d.Queue
	}
	return name
}

func (f *fence) power(ctx context.Context, name string) agent.Power {
	began, power := time.Now(), agent.PowerUnknown
	d, err := f.device(name)
	switch p, ok := f.prepared[name]; {
	case err != nil:
	case ok:
		reading, cancel := context.WithTimeout(ctx, d.Timeout)
		power, err = p.power(reading)
		cancel()
	default:
		power, err = f.devices.power(ctx, f.node, d)
	}
	if err != nil {
		power = agent.PowerUnknown
		f.log.Debug("device cannot be read", zap.String("device", name), zap.Error(err))
	}
	if hook := f.config.Hooks.OnReading; hook != nil {
		hook(f.node, name, power, time.Since(began))
	}
	return power
}

// reachWithin limits the wait for the Secrets of a command. After that the last known values are
// used, while the look at the node is still young enough for the command.
const reachWithin = time.Second

// reach returns a device with its Secrets.
func (f *fence) reach(ctx context.Context, d *nodeplan.Device) (agent.Target, error) {
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	return f.devices.secrets.target(ctx, f.node, d)
}

// call sends a command and waits for the end of the agent, because an interrupted command may take
// effect later. A command without its Secrets is not sent, but the try counts and the device is
// read; otherwise it would be the next step for ever. If the turn comes too late for the last look
// at the node, the fence keeps it for the next command.
func (f *fence) call(ctx context.Context, step statemachine.Call) error {
	config := f.config
	if f.turn == nil {
		end, err := f.devices.turns.take(ctx, f.queue(step.Device), true)
		if err != nil {
			return err
		}
		f.turn = end
	}
	var target agent.Target
	d, err := f.device(step.Device)
	if err == nil {
		target, err = f.reach(ctx, d)
	}
	unsent := err != nil
	f.prepare(ctx, step.Device) // it is read afterwards
	timeout := time.Duration(step.Op.DeadlineSeconds) * time.Second
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	command := agent.Command{ID: step.Op.ID, Action: step.Op.Action, Timeout: timeout}
	outcome := statemachine.Outcome{Began: f.clock.Now()}
	if ctx.Err() != nil || config.Leadership.Remaining() <= 0 || !unsent && step.Late(f.clock.Now()) {
		f.memory = f.memory.Changed()
		return ctx.Err()
	}
	defer f.endTurn()
	if !unsent {
		err = config.Agents.Switch(calling, target, command)
	}
	before := f.record.Status
	outcome.Ended, outcome.Sent = f.clock.Now(), err == nil || errors.Is(err, agent.ErrNoEffect)
	f.memory = f.memory.After(&before, step, outcome)
	if errors.Is(err, agent.ErrAlive) {
		f.stuck = fmt.Errorf("command %s to device %s: %w", step.Op.ID, step.Device, err)
	}
	took := outcome.Ended.SinceAtLeast(outcome.Began)
	log := f.log.With(zap.String("device", step.Device), zap.String("action", string(step.Op.Action)),
		zap.String("operation", step.Op.ID))
	if unsent {
		log.Warn("command not sent", zap.Error(err))
	} else {
		log.Info("command sent", zap.Duration("took", took), zap.NamedError("answer", err))
	}
	if config.Hooks.OnCommand != nil {
		config.Hooks.OnCommand(f.node, step.Device, step.Op.Action, took, err)
	}
	return nil
}

// cluster returns the node for changes by this incident.
func (f *fence) cluster() (*cluster.Node, error) {
	s := &f.record.Status
	return cluster.New(f.client.kube, cluster.Config{Name: f.node, UID: s.NodeUID, Incident: s.Incident, Seen: f.seen})
}

// errNotLeader means that this process has lost the leadership.
var errNotLeader = errors.New("fencing: the leadership has ended")

// act executes a method of the cluster.
func (f *fence) act(ctx context.Context, step statemachine.Act) error {
	node, err := f.cluster()
	if err != nil {
		return err
	}
	before, outcome := f.record.Status, statemachine.Outcome{Began: f.clock.Now()}
	err = f.method(ctx, node, step.Method)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, cluster.ErrNotProved), errors.Is(err, cluster.ErrNodeGone):
		f.memory = f.memory.Changed() // the state machine decides on what is there now
		return err
	case err != nil && !refused(err) && !f.refusedForLong(err): // not a proven failure
		return err
	case err != nil:
		kube.RoleOf(ctx).Refused(err)
		f.log.Warn("method failed", zap.String("method", step.Method), zap.Error(err))
		f.config.event(f.record, corev1.EventTypeWarning, "MethodFailed", "Act", "%s: %v", step.Method, err)
	}
	outcome.Ended, outcome.Failed = f.clock.Now(), err != nil
	f.memory = f.memory.After(&before, step, outcome)
	return nil
}

func (f *fence) method(ctx context.Context, node *cluster.Node, name string) error {
	switch name {
	case nodeplan.MarkUnschedulable:
		return node.MarkUnschedulable(ctx, f.config.requireLeader)
	case nodeplan.MarkSchedulable:
		return node.MarkSchedulable(ctx)
	case nodeplan.Cordon:
		_, err := node.Cordon(ctx, f.config.requireLeader)
		return err
	case nodeplan.Uncordon:
		return node.Uncordon(ctx)
	case nodeplan.OutOfService: // part of every release; must not precede the proof
		return nil
	case nodeplan.CleanPods:
		_, err := node.Evict(ctx, f.requireNodeFailing, cluster.Options{OnPod: f.evicted}, cluster.Progress{})
		return err
	case nodeplan.DetachVolumes:
		pods, err := node.Evict(ctx, f.requireNodeFailing, cluster.Options{OnPod: f.evicted}, cluster.Progress{})
		if err == nil && !f.shownReady() {
			// The machine may run, with pods that were not evicted or are not listed any more. The
			// release frees pods and volumes when it has no power.
			return nil
		}
		if err == nil && !pods.Done {
			err = fmt.Errorf("%w: %d pods", errPodsLeft, len(pods.Left))
		}
		if err == nil {
			err = requireVolumesUnused(ctx, node)
		}
		if err == nil {
			_, err = node.DetachVolumes(ctx, func(ctx context.Context) error {
				return f.requireVolumesFree(ctx, node)
			}, nil)
		}
		return err
	case statemachine.Commission:
		return f.writeProof(ctx, node)
	case nodeplan.DeleteNode:
		return node.Delete(ctx, f.requireNodeFailing)
	}
	return fmt.Errorf("%w %q", errNoMethod, name)
}

var (
	errPodsLeft = errors.New("fencing: pods are left that may use the volumes")
	errNoMethod = errors.New("fencing: there is no method")
)

// refusedForLong reports whether the API server has been answering a method with errors for long,
// as it does when a webhook is gone. Errors that ask for another try do not count.
func (f *fence) refusedForLong(err error) bool {
	later := apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServerTimeout(err)
	return kube.Stated(err) && !later && f.failures.persist(f.clock.Now())
}

// refused reports whether a retry of a method is unlikely to succeed. The page of a proxy does not
// count as a refusal.
func refused(err error) bool {
	return errors.Is(err, errPodsLeft) || errors.Is(err, errNoMethod) || errors.Is(err, cluster.ErrContended) ||
		kube.Stated(err) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err))
}

// requireLeader returns an error unless this process leads. It is the proof for changes that can be
// undone and do not harm a working node.
func (c *Config) requireLeader(context.Context) error {
	if c.Leadership.Remaining() <= 0 {
		return errNotLeader
	}
	return nil
}

// requireNodeFailing returns an error unless this process leads and the node still fails. It is the
// proof for changes that would harm a working node.
func (f *fence) requireNodeFailing(ctx context.Context) error {
	if err := f.config.requireLeader(ctx); err != nil {
		return err
	}
	n, err := f.lookAtNode(ctx)
	switch {
	case err != nil:
		return err
	case n.Missing || n.UID != f.record.Status.NodeUID || n.Leaving:
		return errors.New("the node is gone")
	case n.Ready && !n.Failing: // the condition of a lost node may have become Unknown
		return errors.New("the node works again")
	}
	return nil
}

// requireVolumesFree returns an error unless the node fails, is Ready nevertheless, and nothing on it
// uses volumes.
func (f *fence) requireVolumesFree(ctx context.Context, node *cluster.Node) error {
	if err := f.requireNodeFailing(ctx); err != nil {
		return err
	}
	if !f.shownReady() {
		return errors.New("the node is not Ready: its machine may run what uses the volumes")
	}
	return requireVolumesUnused(ctx, node)
}

// requireVolumesUnused returns an error if something on a working node still uses volumes.
func requireVolumesUnused(ctx context.Context, node *cluster.Node) error {
	users, err := node.VolumesInUse(ctx)
	if err == nil && len(users) > 0 {
		err = fmt.Errorf("%w: %s", errPodsLeft, strings.Join(users, ", "))
	}
	return err
}

// shownReady reports whether the node was last seen Ready.
func (f *fence) shownReady() bool {
	facts, ok := f.state.nodes.FactsOf(f.node, time.Now())
	return ok && facts.Ready == policy.True
}

func (f *fence) evicted(pod *corev1.Pod) {
	f.config.event(f.record, corev1.EventTypeNormal, "PodEvicted", "Evict", "pod %s/%s", pod.Namespace, pod.Name)
}
