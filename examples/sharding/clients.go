package main

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// clients are what a replica talks to the API server with.
type clients struct {
	config *rest.Config
	// leases is for the shard's lease and the election: nothing else may hold their renewals up.
	leases kubernetes.Interface
	// mapper tells the kinds of resources: in a program that does not know them, one of package restmapper, by discovery.
	mapper meta.RESTMapper
}

func newClients(kubeconfig string) (*clients, error) {
	config, err := clientConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // or client-go would allow the sharder, and the work, 5 requests per second
	leases, err := kubernetes.NewForConfig(shardlease.LeaseConfig(config))
	if err != nil {
		return nil, err
	}
	// What is known beforehand need not be asked for: a replica that starts while the API server is down waits instead of failing.
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return &clients{config: config, leases: leases, mapper: mapper}, nil
}

func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
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
