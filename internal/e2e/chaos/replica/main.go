// Command replica is a sharded controller of which a referee wants to know everything: it writes into a file when work on an object begins
// and when it ends, by the clock of the machine, so that not even SIGKILL loses a line.
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
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

type options struct {
	kubeconfig, workKubeconfig string
	journal                    string
	lease                      shardlease.Config
	scanInterval, gcPeriod     time.Duration
	work                       work
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, parse()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func parse() options {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "path; of the user who leads, assigns and lets go")
	flag.StringVar(&o.workKubeconfig, "work-kubeconfig", "", "path; of the user who works")
	flag.StringVar(&o.journal, "journal", "", "path")
	flag.StringVar(&o.lease.Namespace, "namespace", "", "of everything")
	flag.StringVar(&o.lease.Ring, "ring", "", "of all replicas")
	flag.StringVar(&o.lease.Identity, "identity", "", "of this shard")
	flag.StringVar(&o.lease.Incarnation, "incarnation", "", "UID of the Pod")
	flag.DurationVar(&o.lease.LeaseDuration, "lease-duration", 0, "D")
	flag.BoolVar(&o.lease.KernelDeadline, "kernel-deadline", false, "die by the kernel's timer")
	flag.DurationVar(&o.scanInterval, "scan-interval", 0, "of the sharder")
	flag.DurationVar(&o.gcPeriod, "gc-period", 0, "of the sharder")
	flag.Float64Var(&o.work.slowness, "slowness", 1, "how many times longer than usual work takes")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	log, err := zap.NewDevelopment(zap.AddStacktrace(zap.FatalLevel))
	if err != nil {
		return err
	}
	o.lease.Logger = log
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	workConfig, err := clientcmd.BuildConfigFromFlags("", o.workKubeconfig)
	if err != nil {
		return err
	}
	config.QPS, workConfig.QPS = -1, -1
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
	if err != nil {
		return err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)

	lease, err := shardlease.New(leases, o.lease)
	if err != nil {
		return err
	}
	_, objects, err := guarded(config, lease.WrapTransport)
	if err != nil {
		return err
	}
	resources := []sharder.Resource{{GVR: configMaps, Selector: wanted, Namespaces: []string{o.lease.Namespace}, Children: []schema.GroupVersionResource{secrets}}}
	shard, err := sharder.NewShard(objects, mapper, lease, sharder.ShardConfig{Resources: resources, Logger: log, AckGrace: time.Second})
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: o.lease.Namespace, Name: o.lease.Ring + "-sharder", Identity: fmt.Sprintf("%s-%d", o.lease.Identity, os.Getpid()),
		LeaseDuration: o.lease.LeaseDuration, Logger: log,
		OnLost: func(err error) { log.Warn("not the sharder any more", zap.Error(err)) },
	})
	if err != nil {
		return err
	}
	kube, all, err := guarded(config, elector.WrapTransport)
	if err != nil {
		return err
	}
	s, err := sharder.New(kube, all, mapper, sharder.Config{
		Ring: o.lease.Ring, Namespace: o.lease.Namespace, Resources: resources, LeaseDuration: o.lease.LeaseDuration, Logger: log,
		ScanInterval: o.scanInterval, GCPeriod: o.gcPeriod,
	})
	if err != nil {
		return err
	}
	w := &o.work
	if w.client, _, err = guarded(workConfig, lease.WrapTransport); err != nil {
		return err
	}
	if w.journal, err = newJournal(o.journal); err != nil {
		return err
	}
	w.shard, w.namespace, w.identity = shard, o.lease.Namespace, o.lease.Identity
	return sharder.Replica{Lease: lease, Elector: elector, Sharder: s}.Run(ctx, w.run)
}

// guarded returns clients that write only while the guard lets them.
func guarded(config *rest.Config, guard transport.WrapperFunc) (kubernetes.Interface, metadata.Interface, error) {
	config = rest.CopyConfig(config)
	config.Wrap(guard)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	return kube, objects, err
}
