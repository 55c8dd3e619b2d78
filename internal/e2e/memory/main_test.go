package memory_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const root = "github.com/bellwether-k8s/bellwether/"

// packages are the programs that tests start.
var packages = []string{
	root + "cmd/bellwether", root + "examples/leaderelection", root + "examples/leaderforlife",
	root + "examples/sharding", root + "examples/endpoints", e2e.Module + "/run/program",
	e2e.Module + "/leaderelection/controller", e2e.Module + "/fencing/replica",
}

var (
	programs string // their directory

	// lease is D: the least, or more on a slow machine.
	lease = 5 * time.Second
	// patience is for whatever comes next.
	patience = 2 * time.Minute
)

// brisk is what a machine takes to start a leader on which leases of the least duration are safe.
const brisk = 250 * time.Millisecond

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	// The go command must not take the result of an earlier run, because it does not know these programs. It
	// sees that the value differs.
	_ = os.Getenv("BELLWETHER_RUN")
	if programs, err = os.MkdirTemp("", "bellwether memory "); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(programs)) }()
	ctx := context.Background()
	arguments := append([]string{
		"build", "-buildvcs=false", "-ldflags=-s -w", "-o", programs + string(filepath.Separator),
	}, packages...)
	build := exec.CommandContext(ctx, "go", arguments...)
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	took, err := startOne(ctx)
	if err != nil {
		return 1, err
	}
	if slow := float64(took) / float64(brisk); slow > 1 {
		lease = time.Duration(float64(lease) * min(slow, 6)).Round(time.Second)
		patience = time.Duration(float64(patience) * min(slow, 6))
	}
	fmt.Printf("a leader was started in %v: leases last for %v\n", took.Round(time.Millisecond), lease)
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // all at once: they mostly wait
		return 1, err
	}
	return m.Run(), goleak.Find()
}

// startOne measures how long it takes until a leader that is started works.
func startOne(ctx context.Context) (took time.Duration, err error) {
	server, err := apisim.Listen(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	kubeconfig := filepath.Join(programs, "kubeconfig")
	content, err := server.Kubeconfig("measure", "default")
	if err = errors.Join(err, os.WriteFile(kubeconfig, content, 0o600)); err != nil {
		return 0, err
	}
	group, err := e2e.NewGroup(programs)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	worked := make(chan struct{}, 1)
	began := time.Now()
	p, err := group.Start(e2e.Command{
		Name: "measure", Path: filepath.Join(programs, "leaderelection"), Args: []string{"-kubeconfig", kubeconfig},
		Supervised: true, OnLine: func(line string) {
			if strings.Contains(line, `"msg":"working"`) {
				select {
				case worked <- struct{}{}:
				default:
				}
			}
		},
	})
	if err != nil {
		return 0, err
	}
	select {
	case <-worked:
		return time.Since(began), nil
	case <-p.Done():
		return 0, fmt.Errorf("a leader ended instead of working; see %s", p.Log())
	case <-time.After(patience):
		return 0, fmt.Errorf("no leader works within %v", patience)
	}
}
