package main

import (
	"context"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// This file has the blocks of pages in docs that need controller-runtime to compile.
var (
	_ = elected

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
