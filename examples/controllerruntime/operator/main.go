// Command operator is a minimal sharded operator made with controller-runtime. docs/embedding.md
// explains it line by line. The example in the parent directory also has children, and a controller
// that only one of the copies runs.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Leases if this process is killed
	log := zap.Must(zap.NewProduction())
	ctrl.SetLogger(zapr.NewLogger(log))
	if err := run(ctrl.SetupSignalHandler(), parent, log); err != nil {
		log.Fatal("ended", zap.Error(err))
	}
}

func run(ctx context.Context, parent *supervisor.Supervisor, log *zap.Logger) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	r, err := replica.New(config, replica.Config{
		Namespace: os.Getenv("POD_NAMESPACE"), Ring: "widgets",
		Resources: []api.Resource{{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}},
		Identity:  os.Getenv("POD_NAME"), PodUID: os.Getenv("POD_UID"),
		KernelDeadline: true, ReleaseTimeout: 20 * time.Second, Supervisor: parent, Logger: log,
	})
	if err != nil {
		return err
	}
	stopProbes, err := serveProbes(":8081", r)
	if err != nil {
		return err
	}
	defer stopProbes()
	mgr, err := ctrl.NewManager(r.ShardConfig, ctrl.Options{
		Cache:                   cache.Options{NewInformer: r.Shard.NewInformer},
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)),
	})
	if err != nil {
		return err
	}
	reconciler := &widgets{mgr.GetClient()}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		Complete(controllerruntime.WrapReconciler[corev1.ConfigMap](r.Shard, mgr.GetClient(), reconciler))
	if err != nil {
		return err
	}
	return r.Run(ctx, mgr.Start, nil)
}

// widgets is a reconciler like any other.
type widgets struct{ client client.Client }

// Reconcile writes with ctx, which ends when another process may be at work.
func (w *widgets) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	m := &corev1.ConfigMap{}
	if err := w.client.Get(ctx, q.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	fmt.Println("working on", q.NamespacedName) // your work goes here
	return ctrl.Result{}, nil
}
