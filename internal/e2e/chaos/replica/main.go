// Command replica is a sharded controller with a journal for a referee: it writes into a file when
// work on an object begins and when it ends, by the clock of the machine, so that not even SIGKILL
// loses a line.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

type options struct {
	kubeconfig, workKubeconfig string
	journal                    string
	replica                    replica.Config
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
	flag.StringVar(&o.replica.Namespace, "namespace", "", "of everything")
	flag.StringVar(&o.replica.Ring, "ring", "", "of all replicas")
	flag.StringVar(&o.replica.Identity, "identity", "", "of this shard")
	flag.StringVar(&o.replica.PodUID, "incarnation", "", "UID of the Pod")
	flag.DurationVar(&o.replica.LeaseDuration, "lease-duration", 0, "D")
	flag.BoolVar(&o.replica.KernelDeadline, "kernel-deadline", false, "die by the kernel's timer")
	flag.DurationVar(&o.replica.ScanInterval, "scan-interval", 0, "of the sharder")
	flag.DurationVar(&o.replica.GCPeriod, "gc-period", 0, "of the sharder")
	flag.Float64Var(&o.work.slowness, "slowness", 1, "how many times longer than usual work takes")
	flag.Parse()
	return o
}

func run(ctx context.Context, o options) error {
	log, err := zap.NewDevelopment(zap.AddStacktrace(zap.FatalLevel))
	if err != nil {
		return err
	}
	o.replica.Logger = log
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return err
	}
	mapper := meta.NewDefaultRESTMapper(nil) // a replica may start while the API server is down
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	o.replica.Resources = []api.Resource{{
		GVR: configMaps, Selector: wanted, Namespaces: []string{o.replica.Namespace},
		Children: []schema.GroupVersionResource{secrets},
	}}
	o.replica.Mapper = mapper
	o.replica.AckGrace, o.replica.Hooks.Sharder = time.Second, told(log)
	r, err := replica.New(config, o.replica)
	if err != nil {
		return err
	}
	workConfig, err := clientcmd.BuildConfigFromFlags("", o.workKubeconfig)
	if err != nil {
		return err
	}
	workConfig.QPS = -1
	workConfig.Wrap(r.Lease.WrapTransport)
	w := &o.work
	if w.client, err = kubernetes.NewForConfig(workConfig); err != nil {
		return err
	}
	if w.journal, err = newJournal(o.journal); err != nil {
		return err
	}
	w.shard, w.namespace, w.identity = r.Shard, o.replica.Namespace, o.replica.Identity
	return r.Run(ctx, w.run, nil)
}

// told returns hooks that log what the sharder does.
func told(log *zap.Logger) sharder.Hooks {
	var carriedOut, failed atomic.Int64 // patches
	return sharder.Hooks{
		OnScan: func(s sharder.Scan) {
			log.Info("scanned", zap.Int("objects", s.Objects), zap.Int("placed", s.Placed),
				zap.Duration("took", s.Took),
				zap.Int64("patches", carriedOut.Swap(0)), zap.Int64("failedPatches", failed.Swap(0)))
		},
		OnPatch: func(p sharder.Patch) {
			if p.Err == nil {
				carriedOut.Add(1)
			} else {
				failed.Add(1)
			}
		},
	}
}
