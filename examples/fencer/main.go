// Command fencer takes lost nodes out of service: it cuts their power by the fence agents that are configured, frees their pods, and switches them on
// again. Run two copies, on different nodes: one of them works.
//
// It exits with 75 when it has lost the leadership, with 1 when its own node has failed, and with 0 on SIGTERM, after its work has ended.
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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/kdump"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func main() {
	leaderelection.ReexecIfPID1() // or -kernel-deadline would be refused in a container
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	namespace := flag.String("namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Lease and of the configuration")
	fencer := fencing.Config{StrictSecrets: true}
	flag.StringVar(&fencer.Node, "node", os.Getenv("NODE_NAME"), "node that this process runs on, which it never fences")
	flag.BoolVar(&fencer.OutsideCluster, "outside-cluster", false, "this process runs on no node of the cluster")
	flag.DurationVar(&fencer.Limits.Observation, "observation", 40*time.Second, "how long a new leader watches before it fences")
	flag.BoolVar(&fencer.RequireCommissioned, "require-commissioned", false, "fence only nodes whose devices were proved to be their own")
	flag.IntVar(&fencer.ChecksAtOnce, "checks-at-once", 4, "how many agents read devices at the same time while nothing is wrong")
	flag.StringVar(&fencer.TypeLabel, "type-label", "type", "label of nodes that selects the configuration of a type")
	dumps := flag.String("kdump", "", "where kernels of nodes with kdump=yes say that they write a dump, such as :7410; empty: such nodes are refused")
	agents := agents{}
	agents.flags()
	election := leaderelection.Config{Name: "fencer"}
	flag.DurationVar(&election.LeaseDuration, "lease-duration", 15*time.Second, "how long a leader stays one without renewal")
	flag.BoolVar(&election.KernelDeadline, "kernel-deadline", false, "have the kernel kill a leader that is stopped past its deadline")
	flag.Parse()
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	election.Namespace, fencer.Namespace = *namespace, *namespace
	election.Logger, fencer.Logger = log, log
	fencer.Limits.APISilence = election.LeaseDuration
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig) // of the cluster that this runs in, if empty
	if err != nil {
		return err
	}
	// A client of its own for the Lease: renewals must not queue behind the work.
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, election)
	if err != nil {
		return err
	}
	// The other clients write only while this process leads, and are not throttled: a fence must not wait for itself.
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(elector.WrapTransport)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	fences, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if *dumps != "" {
		fencer.Dumps = func() (fencing.Dumps, error) { return kdump.Listen(*dumps) }
	}
	if fencer.Agents, err = agents.new(client, log); err != nil {
		return err
	}
	recorder := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := recorder.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	defer recorder.Shutdown()
	fencer.Events, fencer.Leadership = recorder.NewRecorder(scheme.Scheme, "fencer"), elector
	controller, err := fencing.New(client, fences, fencer)
	if err != nil {
		return err
	}
	return elector.Run(ctx, controller.Run)
}
