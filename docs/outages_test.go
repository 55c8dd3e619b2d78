package docs_test

import (
	"context"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

var _ = warmLeader // of outages.md

func warmLeader(ctx context.Context, config *rest.Config, client kubernetes.Interface, log *zap.Logger) error {
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(config))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: "default", Name: "my-controller", StepDown: 3 * time.Second, Logger: log,
	})
	if err != nil {
		return err
	}
	caches := informers.NewSharedInformerFactory(client, 0)
	configMaps := caches.Core().V1().ConfigMaps().Lister()
	caches.Start(ctx.Done()) // of the process, not of a term
	defer caches.Shutdown()
	return elector.Run(ctx, func(ctx context.Context) error {
		caches.WaitForCacheSync(ctx.Done())
		return reconcileAll(ctx, configMaps) // returns within StepDown after ctx has ended
	})
}

func reconcileAll(context.Context, corelisters.ConfigMapLister) error { return nil }
