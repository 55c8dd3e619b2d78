// Command replica is a shard that does nothing: it prints a line with its epoch when it begins to
// work, and then, as long as it holds its lease, a line with the time each time it acts.
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

	"github.com/bellwether-k8s/bellwether/internal/e2e/doomed"
	"github.com/bellwether-k8s/bellwether/shardlease"
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
	shard := shardlease.Config{Ring: "r", Logger: zap.Must(zap.NewDevelopment())}
	kubeconfig := flag.String("kubeconfig", "", "path")
	qps := flag.Float64("qps", 0, "limit of the client; 0: that of LeaseConfig")
	flag.StringVar(&shard.Namespace, "namespace", "", "of the Lease")
	flag.StringVar(&shard.Identity, "identity", "", "of this shard")
	flag.StringVar(&shard.PodUID, "incarnation", "", "of this shard's Pod")
	flag.DurationVar(&shard.LeaseDuration, "lease-duration", 0, "D")
	flag.BoolVar(&shard.KernelDeadline, "kernel-deadline", false, "die by the kernel's timer")
	after := flag.Int("after", 0, "PID of a process that must be at its end when this one begins to work")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config = shardlease.LeaseConfig(config)
	if *qps > 0 {
		config.QPS, config.Burst = float32(*qps), 1
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	l, err := shardlease.New(client, shard)
	if err != nil {
		return err
	}
	return l.Run(ctx, func(ctx context.Context) error {
		if *after != 0 && !doomed.Process(*after) {
			fmt.Println("works although process", *after, "can act")
		}
		term, _ := shardlease.TermFrom(ctx)
		fmt.Println("begin", term.Epoch())
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil {
			at := time.Now() // before the check, or a process that is stopped after it would act on
			if term.Err() != nil {
				break
			}
			fmt.Println("act", at.UnixNano())
			<-pace.C
		}
		return ctx.Err()
	})
}
