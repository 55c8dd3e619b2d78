package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// election is a chapter: three copies of examples/leaderelection. One works.
type election struct {
	*stage
	terms    *referee.Terms
	daemons  map[string]*e2e.Process // the latest process of each
	launched int
}

func playElection(ctx context.Context, s *stage) error {
	e := &election{stage: s, terms: referee.NewTerms(), daemons: map[string]*e2e.Process{}}
	return e.play(ctx)
}

// play is the scenario. It returns an error if anything unexpected happens.
func (e *election) play(ctx context.Context) error {
	e.paragraph("Three daemons contend for a Lease of %v. The leader acts every 20 ms, asking each time whether it "+
		"still leads.", leaseDuration)
	e.paragraph("")
	if err := e.launch("a"); err != nil {
		return err
	}
	leader, err := e.successor(ctx, "leads: first come, first served")
	if err != nil {
		return err
	}
	if err := errors.Join(e.launch("b"), e.launch("c")); err != nil {
		return err
	}
	blows := []func(context.Context, referee.Term) (referee.Term, error){e.kill, e.killBoth, e.stop, e.end}
	if !e.supervised() {
		blows = blows[1:]
	}
	for _, blow := range blows {
		if err := sleep(ctx, calm); err != nil {
			return err
		}
		if leader, err = blow(ctx, leader); err != nil {
			return err
		}
	}
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	return e.judge()
}

// supervised reports whether the daemons have supervisors. On a user's cluster, it may be that only
// the daemon itself can use the credentials.
func (e *election) supervised() bool { return e.server != nil || e.cp != nil }

// kill ends the leader without warning. Its supervisor has waited for it and releases the lease.
func (e *election) kill(ctx context.Context, leader referee.Term) (referee.Term, error) {
	e.say(leader.Daemon, "kill -9: its parent knows that it is dead, and releases the lease")
	at := time.Now()
	if err := e.daemons[leader.Daemon].Kill(); err != nil {
		return referee.Term{}, err
	}
	next, err := e.successor(ctx, "leads")
	if err != nil {
		return referee.Term{}, err
	}
	e.result("kill -9: the next leader acted after %v", next.Start.Sub(at))
	return next, e.launch(leader.Daemon)
}

// killBoth ends the leader and its supervisor, as the end of a container does. The successor has to
// wait until the lease has expired.
func (e *election) killBoth(ctx context.Context, leader referee.Term) (referee.Term, error) {
	what := "kill -9"
	if e.supervised() {
		what += ", its parent too"
	}
	e.say(leader.Daemon, "%s: the others wait until its record is %v old", what, leaseDuration)
	p := e.daemons[leader.Daemon]
	at := time.Now()
	if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
		return referee.Term{}, err
	}
	if _, err := p.Wait(ctx); err != nil {
		return referee.Term{}, err
	}
	next, err := e.successor(ctx, "leads: the record has not changed for a lease duration")
	if err != nil {
		return referee.Term{}, err
	}
	e.result(what+": the next leader acted after %v", next.Start.Sub(at))
	return next, e.launch(leader.Daemon)
}

// stop makes the leader miss its deadline without noticing and wakes it when it has a successor.
func (e *election) stop(ctx context.Context, leader referee.Term) (referee.Term, error) {
	p := e.daemons[leader.Daemon]
	e.say(leader.Daemon, "kill -STOP: for this process time stands still")
	at := time.Now()
	if err := p.Pause(); err != nil {
		return referee.Term{}, err
	}
	next, err := e.successor(ctx, "leads")
	if err != nil {
		return referee.Term{}, err
	}
	if err := sleep(ctx, calm/2); err != nil {
		return referee.Term{}, err
	}
	e.say(leader.Daemon, "kill -CONT: it wakes, and believes that it leads")
	if err := p.Resume(); err != nil {
		return referee.Term{}, err
	}
	woken := time.Now()
	exit, err := e.exited(ctx, p, leaderelection.ExitCodeNotLeader)
	if err != nil {
		return referee.Term{}, err
	}
	e.terms.Excuse(leader.Daemon, at.Add(leaseDuration))
	e.say(leader.Daemon, "%v", exit)
	e.result("kill -STOP: the next leader acted after %v; the old one exited %v after it woke", next.Start.Sub(at),
		exit.At.Sub(woken))
	return next, e.launch(leader.Daemon)
}

// end asks the leader to end, as a rollout does.
func (e *election) end(ctx context.Context, leader referee.Term) (referee.Term, error) {
	p := e.daemons[leader.Daemon]
	e.say(leader.Daemon, "kill -TERM: it ends its work, then releases the lease")
	if err := p.Terminate(); err != nil {
		return referee.Term{}, err
	}
	at := time.Now()
	next, err := e.successor(ctx, "leads")
	if err != nil {
		return referee.Term{}, err
	}
	exit, err := e.exited(ctx, p, 0)
	if err != nil {
		return referee.Term{}, err
	}
	e.say(leader.Daemon, "%v", exit)
	e.result("kill -TERM: the next leader acted after %v", next.Start.Sub(at))
	return next, nil
}

// judge ends the daemons and compares all their acts.
func (e *election) judge() error {
	if err := e.group.Close(); err != nil {
		return err
	}
	e.sum()
	overlap, acts, terms := e.terms.Verdict()
	if overlap != "" {
		return fmt.Errorf("two daemons led at once: %s", overlap)
	}
	e.hanging(fmt.Sprintf("Two leaders at once: never (%d acts in %d terms compared).", acts, terms))
	return nil
}

// launch starts a daemon, or starts it again as a kubelet does with a container that has exited.
// Every process has its own identity.
func (e *election) launch(name string) error {
	e.launched++
	identity := fmt.Sprintf("%s-%d", name, e.launched)
	command := e.command(identity, func(line string) { e.terms.Note(name, line) },
		"-identity", identity, "-lease-name", "bellwether-demo", "-work-interval", "20ms")
	command.Supervised = e.supervised()
	p, err := e.startWatched(command)
	if err != nil {
		return err
	}
	if e.daemons[name] == nil {
		e.say(name, "started")
	} else {
		e.say(name, "started again")
	}
	e.daemons[name] = p
	return nil
}

// successor waits for the next term.
func (e *election) successor(ctx context.Context, comment string) (referee.Term, error) {
	select {
	case t := <-e.terms.Begun:
		e.say(t.Daemon, "%s", comment)
		return t, nil
	case <-ctx.Done():
		return referee.Term{}, ctx.Err()
	case <-time.After(patience):
		return referee.Term{}, fmt.Errorf("no leader within %v", patience)
	}
}
