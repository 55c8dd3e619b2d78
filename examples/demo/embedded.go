package main

import (
	"context"
	"errors"
	"os"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// place is the API server of the chapters.
type place string

const (
	embedded place = "embedded" // an API server in memory
	genuine  place = "real"     // etcd, Kubernetes and simulated nodes
	foreign  place = ""         // a user's cluster
	own      place = "own"      // that of the chapter nodes
)

// embed starts an API server in this process. The caller closes it and removes the file of the kubeconfig.
func embed(ctx context.Context, namespace string) (server *apisim.Standalone, kubeconfig string, err error) {
	server, err = apisim.Listen(ctx)
	if err != nil {
		return nil, "", err
	}
	content, err := server.Kubeconfig("demo", namespace)
	if err == nil {
		kubeconfig, err = write(content)
	}
	if err != nil {
		return nil, "", errors.Join(err, server.Close())
	}
	return server, kubeconfig, nil
}

func write(kubeconfig []byte) (name string, err error) {
	f, err := os.CreateTemp("", "bellwether-demo-kubeconfig-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(kubeconfig)
	return f.Name(), errors.Join(err, f.Close())
}
