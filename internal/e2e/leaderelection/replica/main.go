// Command replica is a daemon whose every act can be told apart: while it leads it prints a line with the time each time it
// acts, asking before whether it still leads.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	election := leaderelection.Config{Name: "l", Logger: zap.Must(zap.NewDevelopment())}
	flag.StringVar(&election.Namespace, "namespace", "", "of the Lease")
	flag.StringVar(&election.Identity, "identity", "", "of this replica")
	flag.DurationVar(&election.LeaseDuration, "lease-duration", 0, "D")
	kubeconfig := flag.String("kubeconfig", "", "path")
	drain := flag.Duration("drain", 0, "how long to go on acting when told to end")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(client, election)
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error { return act(ctx, elector, *drain) })
}

func act(ctx context.Context, elector *leaderelection.Elector, drain time.Duration) error {
	fmt.Println("begin")
	stop := make(<-chan time.Time)
	ended := ctx.Done()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for elector.IsLeader() {
		fmt.Println(time.Now().UnixNano())
		select {
		case <-ended:
			ended, stop = nil, time.After(drain)
		case <-stop:
			return nil
		case <-pace.C:
		}
	}
	return context.Cause(ctx)
}
