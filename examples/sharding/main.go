// Command sharding is a controller of which every copy works on its own part of the objects: it writes the checksum of each ConfigMap
// that has the label checksum=wanted into an annotation. Run as many copies as you like, each with an identity of its own.
//
//	go run ./examples/sharding -kubeconfig ~/.kube/config -identity a
//
// It exits with 75 when it has lost its shard lease, and with 0 on SIGTERM or Ctrl-C, after its work has ended.
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

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func main() {
	shardlease.ReexecIfPID1() // or -kernel-deadline would be refused in a container
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var own shardlease.Config
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "path to a kubeconfig; empty: in-cluster")
	flag.StringVar(&own.Namespace, "namespace", "default", "namespace of the ConfigMaps and of the Leases")
	flag.StringVar(&own.Ring, "ring", "checksums", "what all copies have in common")
	flag.StringVar(&own.Identity, "identity", "", "name of this shard, the same after a restart; empty: hostname")
	flag.StringVar(&own.Incarnation, "incarnation", "", "UID of this Pod, so that a restarted container need not wait; empty: none")
	flag.DurationVar(&own.LeaseDuration, "lease-duration", 15*time.Second, "how long a shard stays one without renewal; dead after twice that")
	flag.BoolVar(&own.KernelDeadline, "kernel-deadline", false, "have the kernel kill a shard that is stopped past its deadline")
	flag.DurationVar(&own.ReleaseTimeout, "release-timeout", 20*time.Second, "how long work may take to end")
	health := flag.String("health-address", "", "address for /livez and /readyz; empty: none")
	var work checksums
	work.addFlags()
	flag.Parse()

	log, err := newLogger()
	if err != nil {
		return err
	}
	own.Logger, work.log = log, log
	clients, err := newClients(*kubeconfig)
	if err != nil {
		return err
	}
	resources := []sharder.Resource{{GVR: configMaps, Selector: wanted, Namespaces: []string{own.Namespace}}}

	// A shard: its lease, and clients that write only while it is held.
	lease, err := shardlease.New(clients.leases, own)
	if err != nil {
		return err
	}
	kube, objects, err := clients.guarded(lease.WrapTransport)
	if err != nil {
		return err
	}
	shard, err := sharder.NewShard(objects, clients.mapper, lease, sharder.ShardConfig{Resources: resources, Logger: log})
	if err != nil {
		return err
	}
	// The sharder, at work in one of the replicas: an election that this process survives, and clients that write only while it leads.
	elector, err := leaderelection.New(clients.leases, leaderelection.Config{
		Namespace: own.Namespace, Name: own.Ring + "-sharder", LeaseDuration: own.LeaseDuration, Logger: log,
		OnLost: func(err error) { log.Warn("not the sharder any more", zap.Error(err)) },
	})
	if err != nil {
		return err
	}
	everyones, all, err := clients.guarded(elector.WrapTransport)
	if err != nil {
		return err
	}
	s, err := sharder.New(everyones, all, clients.mapper, sharder.Config{
		Ring: own.Ring, Namespace: own.Namespace, Resources: resources, LeaseDuration: own.LeaseDuration, Logger: log,
	})
	if err != nil {
		return err
	}
	stopHealth, err := serveHealth(*health, lease, elector)
	if err != nil {
		return err
	}
	defer stopHealth()
	work.client, work.shard, work.namespace = kube, shard, own.Namespace
	return sharder.Replica{Lease: lease, Elector: elector, Sharder: s}.Run(ctx, work.run)
}
