// Command playground starts an API server to try things on, prints how to reach it, and ends it
// with itself.
//
//	go run ./cmd/playground          # in memory: Leases, ConfigMaps, Pods and the like, without authorization
//	go run ./cmd/playground -real    # etcd, Kubernetes and nodes in pretence, with the roles of the examples
//	go run ./cmd/playground -nodes   # etcd, Kubernetes and real nodes, with the images of this repository
//
// The first two have what the examples work on. kill -9 leaves a directory with the kubeconfig, with
// -real what etcd has stored, and with -nodes the images.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

func main() {
	realnode.Boot() // nodes start this program
	genuine := flag.Bool("real", false, "start etcd, Kubernetes and nodes; builds them first if they are not there yet")
	nodes := flag.Bool("nodes", false, "start etcd, Kubernetes and nodes with a real kubelet; takes Linux and root")
	root := flag.String("root", "../..", "root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	play := inMemory
	switch {
	case *nodes:
		play = onNodes
	case *genuine:
		play = onKubernetes
	}
	if err := play(ctx, *root); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "playground:", err)
		os.Exit(1)
	}
}

// What the API server in memory serves for examples/controllerruntime and its operator.
var (
	secrets = apisim.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret",
		Namespaced: true,
	}
	widgets = apisim.Resource{
		GroupVersionResource: schema.GroupVersionResource{
			Group: "example.bellwether.dev", Version: "v1", Resource: "widgets",
		},
		Kind: "Widget", Namespaced: true, Status: true,
	}
)

func inMemory(ctx context.Context, root string) (failed error) {
	server, err := apisim.Listen(ctx, secrets, widgets)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, server.Close()) }()
	content, err := server.Kubeconfig("playground", "default")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bellwether-playground-")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return err
	}
	if _, err := load(ctx, config, root, "service.yaml", "objects.yaml"); err != nil {
		return err
	}
	stay(ctx, kubeconfig, "An API server in memory. There are no controllers but the garbage collector, no kubelets "+
		"and no roles.\n"+
		"Without kubectl, look at it so:\n\ncurl "+config.Host+"/api/v1/namespaces/default/configmaps")
	return nil
}

// load loads the examples' manifests of these names, and returns how many.
func load(ctx context.Context, config *rest.Config, root string, names ...string) (n int, err error) {
	for _, name := range names {
		manifests, err := filepath.Glob(filepath.Join(root, "examples", "*", name))
		if err != nil {
			return n, err
		}
		slices.Sort(manifests)
		for _, manifest := range manifests {
			if err := e2e.Apply(ctx, config, manifest); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

func onKubernetes(ctx context.Context, root string) (failed error) {
	cp, err := e2e.New(ctx,
		e2e.Options{
			ControllerManager: true, Scheduler: true, Nodes: []string{"one", "two", "three"},
			Progress: os.Stdout,
		})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, cp.Close()) }()
	roles, err := load(ctx, cp.Admin(), root, "rbac*.yaml")
	if err == nil {
		_, err = load(ctx, cp.Admin(), root, "service.yaml", "objects.yaml")
	}
	if err != nil {
		return err
	}
	kubeconfig, err := cp.Kubeconfig(cp.Admin())
	if err != nil {
		return err
	}
	stay(ctx, kubeconfig,
		fmt.Sprintf("etcd and Kubernetes, three nodes in pretence, and the roles of %d manifests.", roles))
	return nil
}

// stay says how to reach the server, and waits for the end.
func stay(ctx context.Context, kubeconfig, what string) {
	fmt.Printf("%s\n\nexport KUBECONFIG=%s\n\nCtrl-C ends it.\n", what, kubeconfig)
	<-ctx.Done()
	fmt.Println("\nEnded.")
}
