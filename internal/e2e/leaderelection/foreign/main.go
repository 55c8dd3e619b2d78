// Command foreign is the replica of a fleet that has not moved yet: it is elected by client-go's
// elector, and like most programs of that kind ends when its leadership is lost. It prints what the
// command replica prints.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
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
	namespace := flag.String("namespace", "", "of the Lease")
	identity := flag.String("identity", "", "of this replica")
	duration := flag.Duration("lease-duration", 0, "D")
	kubeconfig := flag.String("kubeconfig", "", "path")
	drain := flag.Duration("drain", 0, "how long to go on acting when told to end")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	renewDeadline := *duration * 2 / 3 // the proportions of client-go's defaults
	config.Timeout = renewDeadline / 2 // controller-runtime's
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	began, ended := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: *namespace, Name: "l"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
		},
		LeaseDuration: *duration, RenewDeadline: renewDeadline, RetryPeriod: *duration * 2 / 15, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(began)
				defer close(ended)
				act(ctx, *drain)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		return fmt.Errorf("%s lost its leadership", *identity)
	}
	select {
	case <-began:
		<-ended
	default:
	}
	return nil
}

func act(ctx context.Context, drain time.Duration) {
	fmt.Println("begin")
	stop := make(<-chan time.Time)
	ended := ctx.Done()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for {
		fmt.Println(time.Now().UnixNano())
		select {
		case <-ended:
			ended, stop = nil, time.After(drain)
		case <-stop:
			return
		case <-pace.C:
		}
	}
}
