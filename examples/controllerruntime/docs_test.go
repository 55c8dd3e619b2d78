package main

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/metrics"
	"github.com/bellwether-k8s/bellwether/sharder/replica"
)

// This file has the blocks of pages in docs that need controller-runtime or metrics to compile.
var (
	_ = elected
	_ = measured
	_ = observed

	setUp func(mgr ctrl.Manager) error
)

func elected(ctx context.Context, config *rest.Config, namespace string, log *zap.Logger) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: namespace, Name: "my-operator", KernelDeadline: true, ReleaseTimeout: 20 * time.Second, Logger: log,
	})
	if err != nil {
		return err
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(elector.WrapTransport)
	mgr, err := ctrl.NewManager(guarded, ctrl.Options{
		GracefulShutdownTimeout: ptr.To(time.Duration(-1)), // or the Lease would be released while workers run
	})
	if err != nil {
		return err
	}
	if err := setUp(mgr); err != nil { // ctrl.NewControllerManagedBy(mgr)…
		return err
	}
	return elector.Run(ctx, mgr.Start)
}

func measured(c *leaderelection.Config, probes *http.ServeMux) (err error) {
	registry := prometheus.NewRegistry()
	probes.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	c.Hooks, err = metrics.LeaderElection(registry) // before leaderelection.New takes c
	return err
}

func observed(config *rest.Config, c replica.Config) (*replica.Replica, error) {
	if err := metrics.Replica(ctrlmetrics.Registry, &c); err != nil { // served by managers on /metrics
		return nil, err
	}
	return replica.New(config, c)
}
