package fencing

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

// errProofOld means that the devices must be read again.
var errProofOld = errors.New("fencing: the proof that the machine is without power is too old")

// release does one part of the release of the workloads.
func (f *fence) release(ctx context.Context, step statemachine.Release) error {
	node, err := f.cluster()
	if err != nil {
		return err
	}
	before, outcome := f.record.Status, statemachine.Outcome{Began: f.clock.Now()}
	prove := func(ctx context.Context) error {
		if step.Late(f.clock.Now()) {
			return errProofOld
		}
		f.renewals = 0
		return f.config.requireLeader(ctx)
	}
	switch step.Part {
	case statemachine.Taint:
		_, err = node.TaintOutOfService(ctx, prove)
	case statemachine.Untaint:
		_, err = node.UntaintOutOfService(ctx)
	case statemachine.AwaitDetach:
		var pods, attachments []string
		pods, attachments, err = node.Left(ctx)
		outcome.Left = len(pods)+len(attachments) > 0
	case statemachine.DeletePods:
		err = f.deletePods(ctx, node, prove, step.Storage)
		outcome.Pods, outcome.Left = f.progress.Pods, !f.progress.Done
	}
	if err != nil {
		f.memory = f.memory.Changed()
		if ctx.Err() == nil && (errors.Is(err, cluster.ErrNotProved) || errors.Is(err, cluster.ErrNodeGone)) {
			return nil
		}
		return err
	}
	f.renewals = 0
	outcome.Ended = f.clock.Now()
	f.memory = f.memory.After(&before, step, outcome)
	if outcome.Left && f.progress.After > 0 {
		f.pause(ctx, f.progress.After)
	}
	return nil
}

// deletePods lists the pods and deletes those that may go now. With devices, it is limited to the
// storage that they cut off.
func (f *fence) deletePods(ctx context.Context, node *cluster.Node, prove cluster.Proof, devices []string) error {
	options := cluster.Options{Budget: f.state.budget, OnPod: func(pod *corev1.Pod) {
		f.config.event(f.record, corev1.EventTypeNormal, "PodReleased", "Release", "pod %s/%s", pod.Namespace, pod.Name)
	}}
	if f.config.Limits.PodsPerMinute == 0 {
		options.Budget = nil
	}
	if len(devices) > 0 {
		options.Storage = f.storage(devices)
	}
	var err error
	f.progress, err = node.DeletePods(ctx, prove, options, f.progress)
	return err
}

// storage returns all the storage that the node cannot reach while these devices are off, as one
// set, because a pod may use several.
func (f *fence) storage(devices []string) *api.Storage {
	all := &api.Storage{}
	for _, m := range f.plan.Isolation {
		if m.Device == nil || !slices.Contains(devices, m.Device.Key) {
			continue
		}
		s := f.config.Storage[m.Name]
		all.Drivers = append(all.Drivers, s.Drivers...)
		all.Classes = append(all.Classes, s.Classes...)
		all.Volumes = append(all.Volumes, s.Volumes...)
	}
	return all
}
