// Command kwok plays the kubelet of simulated nodes. It is a binary of its own because KWOK and
// Kubernetes both define the flag --version. "kwok stages" prints the stages that make nodes and
// pods ready at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	nodestages "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podstages "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/cmd"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "stages" {
		fmt.Println(strings.Join([]string{
			nodestages.DefaultNodeInit,
			podstages.DefaultPodReady, podstages.DefaultPodComplete, podstages.DefaultPodDelete,
		}, "\n---\n"))
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true // the command parses the rest
	ctx, err := config.InitFlags(ctx, flags)       // --config has to be read before the command exists
	if err != nil {
		return err
	}
	command := cmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	return command.ExecuteContext(ctx)
}
