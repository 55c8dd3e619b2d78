package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	leaseDuration = 5 * time.Second
	calm          = 2 * time.Second // between two blows
	patience      = time.Minute     // for whatever comes next
)

// stage is where the processes of a chapter act, and what is said about them.
type stage struct {
	cp                    *e2e.ControlPlane // nil: somebody else's cluster
	kubeconfig, namespace string
	group                 *e2e.Group
	program               string

	start   time.Time
	results []string
}

// build builds a program of examples/ into dir.
func build(ctx context.Context, dir, example string) (program string, err error) {
	fmt.Printf("Building examples/%s.\n", example)
	program = filepath.Join(dir, example)
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/bellwether-k8s/bellwether/examples/"+example).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// run starts the program. note is told each line of its log.
func (s *stage) run(name string, note func(line string), args ...string) (*e2e.Process, error) {
	args = append([]string{"-kubeconfig", s.kubeconfig, "-namespace", s.namespace, "-lease-duration", leaseDuration.String()}, args...)
	return s.group.Start(e2e.Command{Name: name, Path: s.program, Args: args, OnLine: note})
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

// sum prints all results.
func (s *stage) sum() {
	fmt.Printf("\n%s\n", strings.Join(s.results, "\n"))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
