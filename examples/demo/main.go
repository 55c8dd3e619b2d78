// Command demo shows what Bellwether is for: three copies of examples/leaderelection as processes on a real Kubernetes API, of
// which one works; it kills, stops and ends the leader, and reports how long succession took and whether two ever led.
//
//	go run .                                 # starts a control plane of its own
//	go run . -kubeconfig ~/.kube/config      # uses yours: one Lease in the namespace given
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kubeconfig := flag.String("kubeconfig", "", "path to the kubeconfig of a cluster to use; empty: start a control plane")
	namespace := flag.String("namespace", "default", "namespace of the Lease")
	flag.Parse()
	if err := run(ctx, *kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace string) (err error) {
	if kubeconfig == "" {
		fmt.Println("Starting a control plane: etcd and kube-apiserver on loopback ports.")
		start := time.Now()
		cp, err := e2e.New(ctx, e2e.Options{Progress: os.Stdout})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cp.Close()) }()
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
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(os.Stderr, "demo: logs of the daemons:", dir)
		}
	}()
	fmt.Println("Building examples/leaderelection.")
	daemon := filepath.Join(dir, "daemon")
	build := exec.CommandContext(ctx, "go", "build", "-o", daemon, "github.com/bellwether-k8s/bellwether/examples/leaderelection")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	group, err := e2e.NewGroup(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, group.Close()) }()
	s := &stage{
		group: group, program: daemon, journal: newJournal(), daemons: map[string]*e2e.Process{},
		args: []string{"-kubeconfig", kubeconfig, "-namespace", namespace, "-lease-name", "bellwether-demo"},
	}
	return s.play(ctx)
}
