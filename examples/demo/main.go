// Command demo shows what Bellwether is for, with processes on a real Kubernetes API, in chapters:
//
//   - election: three copies of examples/leaderelection, of which one works. The leader is killed, stopped and ended.
//   - life: three Pods of examples/leaderforlife, of which one leads until it ends. Its container is killed, it is evicted, and deleted
//     in the foreground.
//   - sharding: three copies of examples/sharding share 1,000 objects out among them; a fourth joins, one is killed, one ends.
//   - endpoints: three copies of examples/endpoints serve behind a Service; one is killed, comes back, one ends; traffic follows.
//
// Each reports how long it took the others to carry on, and whether two processes ever did the same work at once.
//
//	go run .                                 # starts a control plane of its own
//	go run . -chapter sharding               # one chapter
//	go run . -kubeconfig ~/.kube/config      # uses yours: Leases, ConfigMaps and a Service in the namespace given
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// chapter is a scenario with the processes of one program. It returns an error if anything else happens than what is promised.
type chapter struct {
	name, program string
	play          func(ctx context.Context, s *stage) error
}

var chapters = []chapter{
	{"election", "leaderelection", playElection},
	{"life", "leaderforlife", playLife},
	{"sharding", "sharding", playSharding},
	{"endpoints", "endpoints", playServing},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kubeconfig := flag.String("kubeconfig", "", "path to the kubeconfig of a cluster to use; empty: start a control plane")
	namespace := flag.String("namespace", "default", "namespace of all objects")
	name := flag.String("chapter", "", "which chapter to play: "+names()+"; empty: all")
	flag.Parse()
	selected := chapters
	if *name != "" {
		selected = slices.DeleteFunc(slices.Clone(chapters), func(c chapter) bool { return c.name != *name })
	}
	if len(selected) == 0 || flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "demo: chapter: must be one of %s (got %q)\n", names(), *name+strings.Join(flag.Args(), " "))
		os.Exit(2)
	}
	if err := run(ctx, *kubeconfig, *namespace, selected); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func names() string {
	var all []string
	for _, c := range chapters {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

func run(ctx context.Context, kubeconfig, namespace string, chapters []chapter) (failed error) {
	var cp *e2e.ControlPlane
	if kubeconfig == "" {
		fmt.Println("Starting a control plane, and two nodes in pretence, on loopback ports.")
		start := time.Now()
		var err error
		if cp, err = e2e.New(ctx, e2e.Options{ControllerManager: true, Nodes: lifeNodes, Progress: os.Stdout}); err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, cp.Close()) }()
		if kubeconfig, err = cp.Kubeconfig(cp.Admin()); err != nil {
			return err
		}
		fmt.Printf("Ready after %.1f s.\n", time.Since(start).Seconds())
	}
	dir, err := os.MkdirTemp("", "bellwether-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if failed == nil {
			failed = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "demo: logs of the processes:", dir)
		}
	}()
	for _, c := range chapters {
		if err := perform(ctx, c, &stage{cp: cp, kubeconfig: kubeconfig, namespace: namespace}, filepath.Join(dir, c.name)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// perform plays a chapter. The logs of its processes are in dir.
func perform(ctx context.Context, c chapter, s *stage, dir string) (err error) {
	fmt.Printf("\n== %s\n", c.name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if s.program, err = build(ctx, dir, c.program); err != nil {
		return err
	}
	if s.group, err = e2e.NewGroup(dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.group.Close()) }()
	s.start = time.Now()
	return c.play(ctx, s)
}
