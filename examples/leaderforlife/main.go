// Command leaderforlife is a daemon that runs in several Pods. One Pod works until it ends.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
	"k8s.io/client-go/tools/clientcmd"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	logs := zap.NewProductionConfig()
	logs.OutputPaths = []string{"stdout"}
	log := zap.Must(logs.Build())
	if err := leader.Become(ctx, "example-leader", append(outside(log), leader.WithLogger(log))...); err != nil {
		log.Fatal("not the leader", zap.Error(err))
	}
	log.Info("working") // your daemon goes here
	<-ctx.Done()
}

// outside returns the options of a process that acts for a Pod, as in the tests of this project. In
// a Pod, Become needs no options.
func outside(log *zap.Logger) []leader.Option {
	kubeconfig := os.Getenv("KUBECONFIG")
	if kubeconfig == "" {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		log.Fatal("bad kubeconfig", zap.Error(err))
	}
	return []leader.Option{leader.WithConfig(config), leader.WithNamespace(os.Getenv("POD_NAMESPACE"))}
}
