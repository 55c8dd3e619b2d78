// Command kubectl-bellwether shows what Bellwether does in a cluster: elections, rings of shards,
// endpoints and fences. As a plugin of kubectl it is called `kubectl bellwether`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	flags := genericclioptions.NewConfigFlags(true)
	root := command.New(command.Environment{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Terminal:  term.IsTerminal(int(os.Stdout.Fd())),
		NoColour:  os.Getenv("NO_COLOR") != "",
		Connect:   func() (command.Connection, error) { return connect(flags) },
	})
	flags.AddFlags(root.PersistentFlags())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(flags *genericclioptions.ConfigFlags) (command.Connection, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return command.Connection{}, err
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return command.Connection{}, err
	}
	discover, err := flags.ToDiscoveryClient()
	if err != nil {
		return command.Connection{}, err
	}
	discover.Invalidate() // a resource that is younger than kubectl's cache may have objects of a ring
	mapper, err := flags.ToRESTMapper()
	if err != nil {
		return command.Connection{}, err
	}
	c, err := cluster.New(config, mapper, discover)
	return command.Connection{Cluster: c, Config: config, Namespace: namespace}, err
}
