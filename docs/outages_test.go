package docs_test

import (
	"context"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fresh"
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
	configMaps := caches.Core().V1().ConfigMaps()
	warm := fresh.Cache{
		Resource: corev1.Resource("configmaps"), Informer: configMaps.Informer(),
		Source: fresh.Source(client.CoreV1().ConfigMaps("")),
	}
	caches.Start(ctx.Done()) // of the process, not of a term
	defer caches.Shutdown()
	return elector.Run(ctx, func(ctx context.Context) error {
		if err := fresh.Wait(ctx, warm); err != nil {
			return err
		}
		return reconcileAll(ctx, configMaps.Lister()) // returns within StepDown after ctx has ended
	})
}

func reconcileAll(context.Context, corelisters.ConfigMapLister) error { return nil }
