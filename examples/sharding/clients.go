package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// clients are what a replica talks to the API server with.
type clients struct {
	config *rest.Config
	// leases is for the shard's lease and the election: nothing else may hold their renewals up.
	leases kubernetes.Interface
	// mapper tells resources from kinds.
	mapper meta.RESTMapper
}

func newClients(kubeconfig string) (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1 // or client-go would allow the sharder, and the work, 5 requests per second
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
	if err != nil {
		return nil, err
	}
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(resources))
	return &clients{config: config, leases: leases, mapper: mapper}, nil
}

// guarded returns clients that write only while the guard lets them.
func (c *clients) guarded(guard transport.WrapperFunc) (kubernetes.Interface, metadata.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.Wrap(guard)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	return kube, objects, err
}
