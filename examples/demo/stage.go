package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

const (
	leaseDuration = 5 * time.Second
	calm          = 2 * time.Second // between two blows
	patience      = time.Minute     // for whatever comes next
)

// stage is where the daemons act.
type stage struct {
	group   *e2e.Group
	program string
	args    []string // common to all daemons

	journal  *journal
	daemons  map[string]*e2e.Process // the latest process of each
	launched int
	start    time.Time
	results  []string
}

// play is the scenario. It returns an error if anything else happens than what is promised.
func (s *stage) play(ctx context.Context) error {
	fmt.Printf("\nThree daemons contend for a Lease of %v. The leader acts every 20 ms, asking each time whether it still leads.\n\n", leaseDuration)
	s.start = time.Now()
	if err := s.launch("a"); err != nil {
		return err
	}
	leader, err := s.successor(ctx, "leads: first come, first served")
	if err != nil {
		return err
	}
	if err := errors.Join(s.launch("b"), s.launch("c")); err != nil {
		return err
	}
	for _, blow := range []func(context.Context, term) (term, error){s.kill, s.stop, s.end} {
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
	return s.judge()
}

// kill ends the leader without a word. Its successor has to wait until the lease has expired.
func (s *stage) kill(ctx context.Context, leader term) (term, error) {
	s.say(leader.daemon, "kill -9")
	if err := s.daemons[leader.daemon].Kill(); err != nil {
		return term{}, err
	}
	at := time.Now()
	next, err := s.successor(ctx, "leads: the record has not changed for a lease duration")
	if err != nil {
		return term{}, err
	}
	s.result("kill -9: the next leader acted after %v", next.start.Sub(at))
	return next, s.launch(leader.daemon)
}

// stop makes the leader miss its deadline without noticing, and wakes it when it has a successor.
func (s *stage) stop(ctx context.Context, leader term) (term, error) {
	p := s.daemons[leader.daemon]
	s.say(leader.daemon, "kill -STOP: for this process time stands still")
	if err := p.Pause(); err != nil {
		return term{}, err
	}
	at := time.Now()
	next, err := s.successor(ctx, "leads")
	if err != nil {
		return term{}, err
	}
	if err := sleep(ctx, calm/2); err != nil {
		return term{}, err
	}
	s.say(leader.daemon, "kill -CONT: it wakes, and believes that it leads")
	if err := p.Resume(); err != nil {
		return term{}, err
	}
	woken := time.Now()
	exit, err := s.exited(ctx, p, leaderelection.ExitCodeNotLeader)
	if err != nil {
		return term{}, err
	}
	s.say(leader.daemon, "%v", exit)
	s.result("kill -STOP: the next leader acted after %v; the old one exited %v after it woke", next.start.Sub(at), exit.At.Sub(woken))
	return next, s.launch(leader.daemon)
}

// end asks the leader to end, as a roll-out does.
func (s *stage) end(ctx context.Context, leader term) (term, error) {
	p := s.daemons[leader.daemon]
	s.say(leader.daemon, "kill -TERM: it ends its work, then releases the lease")
	if err := p.Terminate(); err != nil {
		return term{}, err
	}
	at := time.Now()
	next, err := s.successor(ctx, "leads")
	if err != nil {
		return term{}, err
	}
	exit, err := s.exited(ctx, p, 0)
	if err != nil {
		return term{}, err
	}
	s.say(leader.daemon, "%v", exit)
	s.result("kill -TERM: the next leader acted after %v", next.start.Sub(at))
	return next, nil
}

// judge ends the daemons and compares all their acts.
func (s *stage) judge() error {
	if err := s.group.Close(); err != nil {
		return err
	}
	fmt.Printf("\n%s\n", strings.Join(s.results, "\n"))
	overlap, acts, terms := s.journal.verdict()
	if overlap != "" {
		return fmt.Errorf("two daemons led at once: %s", overlap)
	}
	fmt.Printf("Two leaders at once: never (%d acts in %d terms compared).\n", acts, terms)
	return nil
}

// launch starts a daemon, or starts it again as a kubelet does with a container that has exited. Every process has an identity
// of its own.
func (s *stage) launch(name string) error {
	s.launched++
	identity := fmt.Sprintf("%s-%d", name, s.launched)
	args := append([]string{"-identity", identity, "-lease-duration", leaseDuration.String(), "-work-interval", "20ms"}, s.args...)
	p, err := s.group.Start(e2e.Command{
		Name: identity, Path: s.program, Args: args, OnLine: func(line string) { s.journal.note(name, line) },
	})
	if err != nil {
		return err
	}
	if s.daemons[name] == nil {
		s.say(name, "started")
	} else {
		s.say(name, "started again")
	}
	s.daemons[name] = p
	return nil
}

// successor waits for the next term.
func (s *stage) successor(ctx context.Context, comment string) (term, error) {
	select {
	case t := <-s.journal.begun:
		s.say(t.daemon, "%s", comment)
		return t, nil
	case <-ctx.Done():
		return term{}, ctx.Err()
	case <-time.After(patience):
		return term{}, fmt.Errorf("no leader within %v", patience)
	}
}

func (s *stage) exited(ctx context.Context, p *e2e.Process, code int) (e2e.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	if err == nil && exit.Code != code {
		err = fmt.Errorf("want exit code %d, got %v; see %s", code, exit, p.Log())
	}
	return exit, err
}

func (s *stage) say(daemon, format string, args ...any) {
	fmt.Printf("%6.2f s  %s  %s\n", time.Since(s.start).Seconds(), daemon, fmt.Sprintf(format, args...))
}

func (s *stage) result(format string, times ...any) {
	for i, d := range times {
		times[i] = d.(time.Duration).Round(time.Millisecond)
	}
	s.results = append(s.results, fmt.Sprintf(format, times...))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
