// Command playground starts an API server to try things on, prints how to reach it, and ends it with itself.
//
//	go run ./cmd/playground          # in memory: Leases, ConfigMaps, Pods and the like, without authorization
//	go run ./cmd/playground -real    # etcd, Kubernetes and nodes in pretence, with the roles of the examples
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
	"syscall"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func main() {
	genuine := flag.Bool("real", false, "start etcd, Kubernetes and nodes; builds them first if they are not there yet")
	examples := flag.String("examples", "../../examples", "directory with the examples, whose roles are loaded")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play := inMemory
	if *genuine {
		play = func(ctx context.Context) error { return onKubernetes(ctx, *examples) }
	}
	if err := play(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

func inMemory(ctx context.Context) (failed error) {
	server, err := apisim.Listen(ctx)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, server.Close()) }()
	content, err := server.Kubeconfig("playground", "default")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bellwether-playground-")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return err
	}
	stay(ctx, kubeconfig, "An API server in memory. There are no controllers but the garbage collector, no kubelets and no roles.")
	return nil
}

func onKubernetes(ctx context.Context, examples string) (failed error) {
	cp, err := e2e.New(ctx, e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{"one", "two", "three"}, Progress: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, cp.Close()) }()
	roles, err := filepath.Glob(filepath.Join(examples, "*", "rbac*.yaml"))
	if err != nil {
		return err
	}
	slices.Sort(roles)
	for _, manifest := range roles {
		if err := cp.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	kubeconfig, err := cp.Kubeconfig(cp.Admin())
	if err != nil {
		return err
	}
	stay(ctx, kubeconfig, fmt.Sprintf("etcd and Kubernetes, three nodes in pretence, and the roles of %d manifests.", len(roles)))
	return nil
}

// stay says how to reach the server, and waits for the end.
func stay(ctx context.Context, kubeconfig, what string) {
	fmt.Printf("%s\n\nexport KUBECONFIG=%s\n\nCtrl-C ends it.\n", what, kubeconfig)
	<-ctx.Done()
	fmt.Println("\nEnded.")
}
