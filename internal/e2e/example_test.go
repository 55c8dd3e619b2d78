package e2e_test

import (
	"context"
	"fmt"
	"os"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// A program outside of tests: it starts a replica with a network of its own, and freezes it.
func ExampleNew() {
	ctx := context.Background()
	cp, err := e2e.New(ctx, e2e.Options{Progress: os.Stderr})
	if err != nil {
		panic(err)
	}
	defer cp.Close()
	namespace, err := cp.Namespace(ctx, "demo")
	if err != nil {
		panic(err)
	}
	proxy, err := cp.Proxy()
	if err != nil {
		panic(err)
	}
	kubeconfig, err := cp.Kubeconfig(proxy.Config(cp.User("replica-a")))
	if err != nil {
		panic(err)
	}
	program, err := cp.Program(ctx, "./cmd/replica", "-race")
	if err != nil {
		panic(err)
	}
	replica, err := cp.Run(e2e.Command{
		Name:   "replica-a",
		Path:   program,
		Args:   []string{"--kubeconfig=" + kubeconfig, "--namespace=" + namespace},
		OnLine: func(line string) { fmt.Println("replica-a:", line) },
	})
	if err != nil {
		panic(err)
	}
	if err := replica.Pause(); err != nil {
		panic(err)
	}
}
