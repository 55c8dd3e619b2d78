// Command operator is a minimal sharded operator made with controller-runtime. It paints Widgets,
// its own custom resource, and gives each a Deployment. docs/embedding.md explains it line by line.
// The example in the parent directory also has a controller that only one of the copies runs.
//
// It exits with 75 when it loses its shard lease. On SIGTERM or Ctrl-C it ends its work and exits
// with 0.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	v1 "github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator/v1"
	"github.com/bellwether-k8s/bellwether/metrics"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Leases if this process is killed
	var o options
	flag.StringVar(&o.healthAddress, "health-address", ":8081", "address for /livez, /readyz and /metrics")
	flag.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second,
		"how long a shard stays one without renewal; dead after twice that")
	flag.Parse() // also -kubeconfig, which is controller-runtime's
	log := zap.Must(zap.NewProduction())
	ctrl.SetLogger(zapr.NewLogger(log))
	if err := run(ctrl.SetupSignalHandler(), o, parent, log); err != nil {
		log.Fatal("ended", zap.Error(err))
	}
}

type options struct {
	healthAddress string
	leaseDuration time.Duration
}

func run(ctx context.Context, o options, parent *supervisor.Supervisor, log *zap.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		return err
	}
	children := []schema.GroupVersionResource{appsv1.SchemeGroupVersion.WithResource("deployments")}
	c := replica.Config{
		Namespace: os.Getenv("POD_NAMESPACE"), Ring: "widgets",
		Resources: []api.Resource{{GVR: v1.Widgets(), Children: children}}, Scheme: scheme,
		Identity: os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
		LeaseDuration: o.leaseDuration, ReleaseTimeout: 20 * time.Second,
		KernelDeadline: true, Supervisor: parent, Logger: log,
	}
	if err := metrics.Replica(ctrlmetrics.Registry, &c); err != nil {
		return err
	}
	r, err := replica.New(config, c)
	if err != nil {
		return err
	}
	stopServing, err := serve(o.healthAddress, r, log)
	if err != nil {
		return err
	}
	defer stopServing()
	mgr, err := ctrl.NewManager(r.ShardConfig, ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cache.Options{NewInformer: r.Shard.NewInformer},
		Metrics:                 server.Options{BindAddress: "0"}, // serve has them
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
	})
	if err != nil {
		return err
	}
	reconciler := &painter{client: mgr.GetClient(), shard: r.Shard, worker: os.Getenv("POD_NAME")}
	err = ctrl.NewControllerManagedBy(mgr).For(&v1.Widget{}).Owns(&appsv1.Deployment{}).
		Complete(controllerruntime.WrapReconciler[v1.Widget](r.Shard, mgr.GetClient(), reconciler))
	if err != nil {
		return err
	}
	return r.Run(ctx, mgr.Start, nil)
}
