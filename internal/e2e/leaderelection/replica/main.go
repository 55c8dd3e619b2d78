// Command replica is a daemon whose every act can be told apart: while it leads it prints a line
// with the time each time it acts, asking before whether it still leads. Its writers do not ask:
// only the guard of their client stops them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/e2e/doomed"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

// options of the work, as opposed to the election.
type options struct {
	kubeconfig string
	writers    int
	drain      time.Duration
	stay       bool
	reexec     bool
	supervised bool
	after      int
}

func main() {
	election, o := parse()
	if o.reexec {
		leaderelection.ReexecIfPID1()
	}
	var parent *supervisor.Supervisor
	if o.supervised {
		parent = supervisor.Start()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parent, election, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() (leaderelection.Config, options) {
	election := leaderelection.Config{Name: "l", Logger: zap.Must(zap.NewDevelopment())}
	var o options
	flag.StringVar(&election.Namespace, "namespace", "", "of the Lease")
	flag.StringVar(&election.Identity, "identity", "", "of this replica")
	flag.DurationVar(&election.LeaseDuration, "lease-duration", 0, "D")
	flag.BoolVar(&election.KernelDeadline, "kernel-deadline", false, "die by the kernel's timer")
	flag.DurationVar(&election.StepDown, "step-down", 0, "how long before the deadline to end the work")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path")
	flag.IntVar(&o.writers, "writers", 0, "how many write, each to a ConfigMap work-<n> that is there already")
	flag.DurationVar(&o.drain, "drain", 0, "how long to go on acting when told to end")
	flag.BoolVar(&o.stay, "stay", false, "when leadership is lost, neither exit nor return before told to end")
	flag.IntVar(&o.after, "after", 0, "PID of a process that must be at its end when this one begins to lead")
	flag.BoolVar(&o.reexec, "reexec", false, "leave the place of PID 1")
	flag.BoolVar(&o.supervised, "supervised", false, "have a supervisor")
	flag.Parse()
	if o.stay {
		election.OnLost = func(err error) { fmt.Fprintln(os.Stderr, err) }
	}
	return election, o
}

func run(ctx context.Context, parent *supervisor.Supervisor, election leaderelection.Config, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	if parent != nil {
		election.Supervisor = parent.Client(config)
	}
	elector, err := leaderelection.New(client, election)
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(elector.WrapTransport)
	guarded, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(term context.Context) error {
		if o.after != 0 && !doomed.Process(o.after) {
			fmt.Println("leads although process", o.after, "can act")
		}
		var writing sync.WaitGroup
		for n := range o.writers {
			writing.Go(func() { write(ctx, term, guarded, election, n) })
		}
		err := act(term, elector, o.drain)
		writing.Wait()
		if o.stay {
			fmt.Fprintln(os.Stderr, "staying")
			<-ctx.Done()
		}
		return err
	})
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
		case <-stop: // the last act may be long before
			if elector.IsLeader() {
				fmt.Println(time.Now().UnixNano())
			}
			return nil
		case <-pace.C:
		}
	}
	return context.Cause(ctx)
}

// write writes as fast as answers come until told to end, whatever becomes of the term, and without
// a resourceVersion: the API server takes every write, however stale.
func write(ctx, term context.Context, client kubernetes.Interface, election leaderelection.Config, n int) {
	object := fmt.Sprintf("work-%d", n)
	for ctx.Err() == nil {
		patch := fmt.Appendf(nil, `{"data":{"by":%q,"at":"%d"}}`, election.Identity, time.Now().UnixNano())
		_, err := client.CoreV1().ConfigMaps(election.Namespace).
			Patch(context.WithoutCancel(term), object, types.MergePatchType, patch, metav1.PatchOptions{})
		switch {
		case errors.Is(err, leaderelection.ErrNotLeader):
			return
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
