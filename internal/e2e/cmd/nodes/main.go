// Command nodes installs the programs of real nodes if they are not there yet, and builds kubelet and
// kube-proxy. Where it cannot install, it says that the tests with real nodes will be skipped, and why.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := realnode.Install(ctx, os.Stdout); err != nil {
		fmt.Println("tests with real nodes will be skipped:", err)
		return
	}
	if _, err := e2e.NodeBinary(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
