// Command leaderelection is a highly available daemon. Run any number of copies; one of them works.
//
//	go run ./examples/leaderelection    # after make playground, or with -kubeconfig ~/.kube/config
//
// It exits with 75 when it loses the lead. On SIGTERM or Ctrl-C it ends its work and exits with 0.
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/leaderelection/admission"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Lease if this process is killed
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parent); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parent *supervisor.Supervisor) error {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	var election leaderelection.Config
	flag.StringVar(&election.Namespace, "namespace", "default", "namespace of the Lease")
	flag.StringVar(&election.Name, "lease-name", "example-daemon", "name of the Lease: one per kind of daemon")
	flag.DurationVar(&election.LeaseDuration, "lease-duration", 15*time.Second,
		"how long a leader stays one without renewal")
	flag.BoolVar(&election.KernelDeadline, "kernel-deadline", false,
		"have the kernel kill a leader that is stopped past its deadline")
	flag.StringVar(&election.Identity, "identity", "", "unique per process; empty: hostname and random digits")
	flag.StringVar(&election.PodUID, "pod-uid", "",
		"UID of this Pod: others then learn from the kubelet that this container has ended")
	fenced := flag.Bool("fenced", false, "use an identity that fence.yaml knows; needs the token of a Pod")
	address := flag.String("health-address", "", "address for /livez and /readyz; empty: none")
	interval := flag.Duration("work-interval", time.Second, "pause between two steps of the work")
	flag.Parse()

	logs := zap.NewProductionConfig()
	logs.OutputPaths = []string{"stdout"}
	log, err := logs.Build()
	if err != nil {
		return err
	}
	election.Logger = log
	config, err := clientConfig(*kubeconfig)
	if err != nil {
		return err
	}
	election.Supervisor = parent.Client(config)
	// The Lease has a client of its own: renewals must not queue behind the work.
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	if *fenced {
		if election.Identity, err = admission.PodIdentity(ctx, leases); err != nil {
			return err
		}
	}
	elector, err := leaderelection.New(leases, election)
	if err != nil {
		return err
	}
	stopHealth, err := serveHealth(*address, elector.Check, log)
	if err != nil {
		return err
	}
	defer stopHealth()
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	client, err := kubernetes.NewForConfig(guarded) // writes only while this process leads
	if err != nil {
		return err
	}
	return elector.Run(ctx, func(ctx context.Context) error {
		return work(ctx, elector, client, *interval, log)
	})
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}

// work is the place for your daemon and its requests by the client. It starts with fresh reads and
// returns soon after ctx ends.
func work(ctx context.Context, elector *leaderelection.Elector, _ kubernetes.Interface, interval time.Duration,
	log *zap.Logger,
) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for step := 1; ; step++ {
		if !elector.IsLeader() { // after every wait, before every act
			return context.Cause(ctx)
		}
		log.Info("working", zap.Int("step", step))
		select {
		case <-ctx.Done():
			log.Info("work has ended")
			return nil
		case <-tick.C:
		}
	}
}
