package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	leaseDuration = 5 * time.Second
	calm          = 2 * time.Second // between two blows
	patience      = time.Minute     // for whatever comes next
)

// nodes of the control plane that the demo starts.
var nodes = []string{"one", "two", "three"}

// stage runs the processes of a chapter and reports on them.
type stage struct {
	cp                    *e2e.ControlPlane  // nil unless it is one of ours
	server                *apisim.Standalone // nil unless it is in memory
	kubeconfig, namespace string
	picture               string // file for one of the chapter; may be empty
	group                 *e2e.Group
	program               string
	dir                   string // for logs and the like

	fail     context.CancelCauseFunc // ends the chapter
	watching sync.WaitGroup          // for processes that fail

	*report
	start   time.Time
	results []string
}

// build builds a program of examples/.
func (s *stage) build(ctx context.Context, example string) error {
	s.program = filepath.Join(s.dir, example)
	return s.during("Building examples/"+example, func() error {
		command := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", s.program,
			"github.com/bellwether-k8s/bellwether/examples/"+example)
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) } // so that it ends its compilers
		out, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), out)
		}
		return nil
	})
}

// run starts the program. note gets each line of its log.
func (s *stage) run(name string, note func(line string), args ...string) (*e2e.Process, error) {
	return s.startWatched(s.command(name, note, args...))
}

// startWatched starts a program. If it refuses to work, for example because of a wrong flag, the
// chapter ends instead of waiting for what never comes.
func (s *stage) startWatched(command e2e.Command) (*e2e.Process, error) {
	p, err := s.group.Start(command)
	if err != nil {
		return nil, err
	}
	s.watch(command.Name, p)
	return p, nil
}

// watch ends the chapter if a process ends like a program that refuses to work.
func (s *stage) watch(name string, p *e2e.Process) {
	done := p.Done()
	s.watching.Go(func() {
		<-done // at the latest when the group is closed
		exit, err := p.Wait(context.Background())
		if err != nil || exit.Code != refused && exit.Code != misused {
			return
		}
		said, err := os.ReadFile(p.Log())
		s.fail(errors.Join(fmt.Errorf("%s has ended with exit code %d:\n%s", name, exit.Code,
			lastLines(string(said), 5)), err))
	})
}

// Exit codes of programs that refuse to work: log.Fatal, and wrong flags.
const (
	refused = 1
	misused = 2
)

// lastLines returns the last n lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (s *stage) command(name string, note func(line string), args ...string) e2e.Command {
	args = append([]string{
		"-kubeconfig", s.kubeconfig, "-namespace", s.namespace, "-lease-duration",
		leaseDuration.String(),
	}, args...)
	return e2e.Command{Name: name, Path: s.program, Args: args, OnLine: note}
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

// say prints an event with its time.
func (s *stage) say(who, format string, args ...any) {
	s.line(fmt.Sprintf("%6.2f s  %s  ", time.Since(s.start).Seconds(), who), format, args...)
}

// result keeps a result for the end.
func (s *stage) result(format string, times ...any) {
	for i, d := range times {
		times[i] = d.(time.Duration).Round(time.Millisecond)
	}
	s.results = append(s.results, fmt.Sprintf(format, times...))
}

// sum prints all results.
func (s *stage) sum() {
	s.paragraph("")
	for _, result := range s.results {
		s.hanging(result)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
