// Command elected is an operator made with controller-runtime. One copy of it works, and the others
// keep their caches warm. If its Lease cannot be renewed, the one that works ends its controllers
// but keeps its caches and stays. docs/embedding.md explains it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/supervisor"
)

func main() {
	parent := supervisor.Start() // releases the Lease if this process is killed
	var options ctrl.Options
	flag.StringVar(&options.HealthProbeBindAddress, "health-address", ":8081", "address for /healthz; 0: none")
	flag.StringVar(&options.Metrics.BindAddress, "metrics-address", ":8080", "address for /metrics; 0: none")
	flag.Parse() // also -kubeconfig, which is controller-runtime's
	log := zap.Must(zap.NewProduction())
	ctrl.SetLogger(zapr.NewLogger(log))
	config, err := ctrl.GetConfig()
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), config, parent.Client(config), options, log)
	}
	if err != nil {
		log.Fatal("ended", zap.Error(err))
	}
}

func run(
	ctx context.Context, config *rest.Config, parent *supervisor.Client, options ctrl.Options, log *zap.Logger,
) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: os.Getenv("POD_NAMESPACE"), Name: "widgets", StepDown: 3 * time.Second,
		KernelDeadline: true, ReleaseTimeout: 20 * time.Second, Supervisor: parent, Logger: log,
	})
	if err != nil {
		return err
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	return controllerruntime.Standby{
		Config:  guarded,
		Options: options, // of a manager that runs in every copy
		Warm:    []client.Object{&corev1.ConfigMap{}},
		SetUp:   func(mgr ctrl.Manager) error { return mgr.AddHealthzCheck("election", elector.Check) },
	}.Run(ctx, elector.Run, setUp)
}

// setUp is called in each term with a new manager.
func setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Complete(&widgets{mgr.GetClient()})
}

// widgets is a reconciler like any other.
type widgets struct{ client client.Client }

// Reconcile writes with ctx, which ends with the term.
func (w *widgets) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	m := &corev1.ConfigMap{}
	if err := w.client.Get(ctx, q.NamespacedName, m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	fmt.Println("working on", q.NamespacedName) // your work goes here
	return ctrl.Result{}, nil
}
