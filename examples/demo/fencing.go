package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

const (
	lostNode, spareNode, fencerNode = "one", "two", "three"

	notReadyFor = 2 * time.Second // before a node that is lost is fenced
	powerWait   = 3 * time.Second // that it has then to come back
	settle      = 10 * time.Second
	recovery    = 2 * time.Minute // until all is well again
)

// fencing is a chapter: a machine hangs, and examples/fencer takes its power.
type fencing struct {
	*stage
	cluster *fencedCluster
	machine *lab.Machine
	fencer  *e2e.Process
	seen    sight

	hung, lost, freed, moved, back time.Time // when the machine hung, and when what came of it was seen
}

func playFencing(ctx context.Context, s *stage) (err error) {
	cluster, err := newFencedCluster(s)
	if err != nil {
		return err
	}
	devices, err := lab.New(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, devices.Close()) }()
	f := &fencing{stage: s, cluster: cluster}
	f.machine = lab.NewMachine(f.powered)
	bmc, err := devices.BMC(f.machine.Chassis())
	if err != nil {
		return err
	}
	return f.play(ctx, bmc)
}

// play is the scenario. It returns an error if anything unexpected happens.
func (f *fencing) play(ctx context.Context, bmc *lab.Device) error {
	f.paragraph("A database, a StatefulSet of one Pod, runs on node %s. Its machine hangs: no one can tell whether "+
		"the Pod still writes, so Kubernetes "+
		"must not start another one. A fencer has the machine switched off by its BMC (ipmi_sim, by fence_ipmilan), "+
		"and proves that. Its waits, of "+
		"minutes by default, are %v and %v here.", lostNode, notReadyFor, powerWait)
	f.paragraph("")
	if err := f.during("Installing the custom resource, rights, configuration and database", func() error {
		return f.cluster.prepare(ctx, bmc)
	}); err != nil {
		return err
	}
	f.start = time.Now()
	for _, act := range []func(context.Context) error{f.begin, f.hang, f.heal} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return f.judge(ctx)
}

// begin starts the fencer and waits until it has read the BMC.
func (f *fencing) begin(ctx context.Context) error {
	kubeconfig, err := f.cluster.fencerConfig(ctx)
	if err != nil {
		return err
	}
	f.fencer, err = f.group.Start(e2e.Command{Name: "fencer", Path: f.program, Args: []string{
		"-kubeconfig", kubeconfig, "-namespace", fencerNamespace, "-node", fencerNode, "-lease-duration",
		leaseDuration.String(), "-observation", leaseDuration.String(),
	}})
	if err != nil {
		return err
	}
	f.tell("fencer", "started")
	if err := f.await(ctx, patience, func() bool { return f.seen.checked && f.seen.podNode == lostNode }); err != nil {
		return err
	}
	return sleep(ctx, calm)
}

// hang stops the machine's process, so that the node reports no more although its power is on.
func (f *fencing) hang(ctx context.Context) error {
	if err := f.cp.Node(lostNode).Pause(); err != nil {
		return err
	}
	f.hung = time.Now()
	f.tell(lostNode, "kill -STOP: its machine hangs")
	return f.await(ctx, patience, func() bool { return !f.seen.ready })
}

// heal waits until the Pod runs elsewhere, and the node is as before.
func (f *fencing) heal(ctx context.Context) error {
	return f.await(ctx, recovery, func() bool {
		return f.seen.podNode == spareNode && f.seen.ready && !f.seen.marked && f.seen.phase == v1alpha1.PhaseFinal
	})
}

// judge compares the events with the guarantees.
func (f *fencing) judge(ctx context.Context) error {
	if err := f.fencer.Terminate(); err != nil {
		return err
	}
	exit, err := f.exited(ctx, f.fencer, 0)
	if err != nil {
		return err
	}
	f.tell("fencer", "%v", exit)
	changes := f.machine.Changes()
	commands := f.machine.Chassis().Commands()
	if len(changes) != 2 || len(commands) != 2 || commands[0].On || !commands[1].On {
		return fmt.Errorf("the BMC was told %v, not to switch off once and on once", commands)
	}
	off, on := changes[0].At, changes[1].At
	if f.freed.Before(off) {
		return errors.New("the Pod was released before its machine was off")
	}
	if err := f.cluster.requireUnmarked(ctx); err != nil {
		return err
	}
	f.result("lost: Ready no more after %v, without power after %v", f.lost.Sub(f.hung), off.Sub(f.hung))
	f.result("Pod: released %v after the power was off, ran elsewhere after %v", f.freed.Sub(off), f.moved.Sub(f.hung))
	f.result("back: power after %v, Ready after %v, and nothing left on it", on.Sub(f.hung), f.back.Sub(f.hung))
	f.sum()
	f.paragraph("Two databases at once: never. Commands to the BMC: one off, one on.")
	return nil
}

// powered is called when the BMC has switched the machine off or on again. When it is off, its
// process is gone and not only stopped.
func (f *fencing) powered(on bool) {
	process := f.cp.Node(lostNode)
	do, what := process.Kill, "switched off: now its machine does nothing more"
	if on {
		do, what = process.Restart, "switched on: its machine boots"
	}
	if err := do(); err != nil {
		what += ", but: " + err.Error()
	}
	f.tell("BMC", "%s", what)
}

// await reports changes until a condition holds.
func (f *fencing) await(ctx context.Context, long time.Duration, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	for !so() {
		if err := sleep(ctx, glance); err != nil {
			return fmt.Errorf("%w; what was seen last is %+v", err, f.seen)
		}
		now, err := f.cluster.look(ctx)
		if err != nil {
			return err
		}
		for _, news := range now.since(f.seen) {
			f.tell(news.who, "%s", news.what)
		}
		f.note(now)
		if f.seen.phase == v1alpha1.PhaseGivenUp {
			return errors.New("the fence was given up")
		}
	}
	return nil
}

// note records when something was first seen after the machine hung.
func (f *fencing) note(now sight) {
	first := func(at *time.Time, so bool) {
		if so && at.IsZero() && !f.hung.IsZero() {
			*at = time.Now()
		}
	}
	first(&f.lost, !now.ready)
	first(&f.freed, now.pod != f.seen.pod)
	first(&f.moved, now.podNode == spareNode)
	first(&f.back, now.ready && !f.lost.IsZero())
	f.seen = now
}

// tell prints an event, in columns.
func (f *fencing) tell(who, format string, args ...any) {
	f.say(fmt.Sprintf("%-6s", who), format, args...)
}
