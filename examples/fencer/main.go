// Command fencer takes lost nodes out of service: it cuts their power with the configured fence agents,
// releases their Pods, and switches them on again. Run two copies on different nodes: one of them works.
//
// From a machine outside the cluster that has the fence agents installed, with a configuration in
// the namespace fencer:
//
//	go run -C examples/fencer . -kubeconfig ~/.kube/config -outside-cluster -namespace fencer -assess
//
// prints what it would do. Without -assess it fences.
//
// It exits with 75 when it loses the lead, and with 1 when its own node has failed or when -assess
// finds a node that could not be fenced. On SIGTERM it ends its work and exits with 0.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
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
	"github.com/bellwether-k8s/bellwether/metrics"
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
	o, err := parse()
	if err != nil {
		return err
	}
	election, fencer := o.election, o.fencer
	log, err := zap.NewProduction()
	if err != nil {
		return err
	}
	election.Logger, fencer.Logger = log, log
	config, err := clientConfig(o.kubeconfig)
	if err != nil {
		return err
	}
	if o.dumps != "" {
		fencer.Dumps = func() (fencing.Dumps, error) { return kdump.Listen(o.dumps) }
	}
	if o.assess {
		return assess(ctx, config, fencer, o.agents)
	}
	registry := prometheus.NewRegistry()
	if election.Hooks, err = metrics.LeaderElection(registry); err != nil {
		return err
	}
	if fencer.Hooks, err = metrics.Fencing(registry); err != nil {
		return err
	}
	election.Supervisor = parent.Client(config)
	// The Lease has a client of its own: renewals must not queue behind the work.
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, election)
	if err != nil {
		return err
	}
	stopHealth, err := serveHealth(o.health, elector.Check, registry, log)
	if err != nil {
		return err
	}
	defer stopHealth()
	// The other clients write only while this process leads. They have no rate limit: a fence must
	// not wait for its own requests.
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
	if fencer.Agents, err = o.agents.new(client, log); err != nil {
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

func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
