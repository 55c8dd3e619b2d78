// Command controllerruntime is an operator made with controller-runtime. Every copy works on its
// own share of the objects. For each ConfigMap with the label example.bellwether.dev/digest=wanted
// it keeps a Secret with the digest of the ConfigMap's data. A second controller, which runs in
// only one of the copies, counts the Secrets.
//
//	go run . -identity a    # after make playground, or with -kubeconfig ~/.kube/config
//
// It exits with 75 when it loses its shard lease. On SIGTERM or Ctrl-C it ends its work and exits
// with 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/zapr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bellwether-k8s/bellwether/metrics"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Leases if this process is killed
	if err := run(ctrl.SetupSignalHandler(), parent); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, parent *supervisor.Supervisor) error {
	c := replica.Config{Supervisor: parent}
	flag.StringVar(&c.Namespace, "namespace", "default", "namespace of the objects and of the Leases")
	flag.StringVar(&c.Ring, "ring", "digests", "what all copies have in common")
	flag.StringVar(&c.Identity, "identity", "", "name of this shard, the same after a restart; empty: hostname")
	flag.StringVar(&c.PodUID, "pod-uid", "",
		"UID of this Pod, so that a restarted container need not wait; empty: none")
	flag.DurationVar(&c.LeaseDuration, "lease-duration", 15*time.Second,
		"how long a shard stays one without renewal; dead after twice that")
	flag.DurationVar(&c.ReleaseTimeout, "release-timeout", 20*time.Second, "how long work may take to end")
	flag.BoolVar(&c.KernelDeadline, "kernel-deadline", false,
		"have the kernel kill a shard that is stopped past its deadline")
	probes := flag.String("health-address", "", "address for /livez, /readyz and /metrics; empty: none")
	work := digests{}
	work.addFlags()
	flag.Parse() // also -kubeconfig, which is controller-runtime's

	log, err := newLogger()
	if err != nil {
		return err
	}
	ctrl.SetLogger(zapr.NewLogger(log))
	c.Logger = log
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	c.Resources = []api.Resource{{
		GVR: configMaps, Selector: wanted, Namespaces: []string{c.Namespace},
		Children: []schema.GroupVersionResource{secrets},
	}}
	if err := metrics.Replica(ctrlmetrics.Registry, &c); err != nil {
		return err
	}
	r, err := replica.New(config, c)
	if err != nil {
		return err
	}
	stopProbes, err := serveProbes(*probes, r, log)
	if err != nil {
		return err
	}
	defer stopProbes()

	// The manager of the sharded controller. Its cache shows this shard's objects. Its clients
	// write only while the shard lease is held.
	options := managerOptions(c.Namespace)
	options.Cache.NewInformer = r.Shard.NewInformer
	options.Cache.ByObject = map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {Label: r.Shard.Selector(wanted)},
		&corev1.Secret{}:    {Label: r.Shard.Selector()},
	}
	mgr, err := ctrl.NewManager(r.ShardConfig, options)
	if err != nil {
		return err
	}
	work.client, work.shard, work.log = mgr.GetClient(), r.Shard, log
	if err := work.setUp(mgr); err != nil {
		return err
	}
	return r.Run(ctx, mgr.Start, func(ctx context.Context) error {
		// This runs in the elected copy only. It has a manager of its own, a new one in each term.
		mgr, err := ctrl.NewManager(r.LeaderConfig, managerOptions(c.Namespace))
		if err != nil {
			return err
		}
		if err := (&census{namespace: c.Namespace}).setUp(mgr); err != nil {
			return err
		}
		return mgr.Start(ctx)
	})
}
