package shard_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// This example is a sharded controller, without the sharder; package replica composes both. Package
// shardertest is for its tests.
func ExampleRunController() {
	config := &rest.Config{Host: "https://api.invalid"} // in a Pod: rest.InClusterConfig()
	mapper := meta.NewDefaultRESTMapper(nil)            // in a program: restmapper.NewDeferredDiscoveryRESTMapper
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // as at the end of the process

	err := greet(ctx, config, mapper)
	fmt.Println("ended:", err)
	// Output: ended: <nil>
}

func greet(ctx context.Context, config *rest.Config, mapper meta.RESTMapper) error {
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
	if err != nil {
		return err
	}
	lease, err := shardlease.New(leases,
		shardlease.Config{Namespace: "default", Ring: "greetings", Identity: "greeter-0"})
	if err != nil {
		return err
	}
	guarded := rest.CopyConfig(config)
	guarded.Wrap(lease.WrapTransport)
	objects, err := metadata.NewForConfig(guarded)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(guarded)
	if err != nil {
		return err
	}
	configMaps := api.Resource{GVR: corev1.SchemeGroupVersion.WithResource("configmaps")}
	worker, err := shard.New(objects, mapper, lease, shard.Config{Resources: []api.Resource{configMaps}})
	if err != nil {
		return err
	}
	return lease.Run(ctx, func(ctx context.Context) error {
		informer := worker.NewInformer(
			shard.ListerWatcher(client.CoreV1().ConfigMaps(""), client), &corev1.ConfigMap{}, 0, cache.Indexers{},
		)
		return shard.RunController(ctx, worker, informer, 2, func(_ context.Context, cm *corev1.ConfigMap) error {
			fmt.Println("hello,", cm.Name)
			return nil
		})
	})
}
