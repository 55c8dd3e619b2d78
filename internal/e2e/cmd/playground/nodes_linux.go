package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// archiveVariable has the path of the images, for the process in the namespaces.
const archiveVariable = "BELLWETHER_PLAYGROUND_IMAGES"

// onNodes plays in namespaces of their own, which have a network of their own. So what is needed from
// outside is made here: images, and where the API server is reached.
func onNodes(ctx context.Context, root string) (failed error) {
	if realnode.Inside() {
		return inside(ctx)
	}
	if err := realnode.Install(ctx, os.Stdout); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bellwether-playground-")
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, os.RemoveAll(dir)) }()
	archive := filepath.Join(dir, "images.tar")
	if err := errors.Join(writeImages(ctx, root, archive), os.Setenv(archiveVariable, archive)); err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return err
	}
	defer file.Close()
	code, err := realnode.Enter(ctx, file)
	if err == nil && code != 0 {
		err = errors.New("it has failed")
	}
	return err
}

// writeImages builds the images of this repository for this machine.
func writeImages(ctx context.Context, root, archive string) error {
	fmt.Println("Building images; with a cold cache some minutes.")
	here := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	images := map[string]v1.Image{}
	for _, p := range image.Programs() {
		built, err := image.Build(ctx, image.Source{Root: root}, p, here)
		if err != nil {
			return err
		}
		images[p.Reference()] = built.Images[0]
	}
	return image.WriteArchive(archive, images)
}

// inside plays in the namespaces. The listener is that of onNodes, outside.
func inside(ctx context.Context) (failed error) {
	fmt.Println("Starting etcd, Kubernetes and three nodes, each with a kubelet and containerd.")
	names := []string{"one", "two", "three"}
	cluster, err := realnode.New(ctx, realnode.Options{Nodes: names, Archive: os.Getenv(archiveVariable)})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, cluster.Close()) }()
	for _, name := range names { // examples/fencer runs on such nodes
		_, err := cluster.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`), metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	proxy := e2e.NewProxyAt(listener, strings.TrimPrefix(cluster.Admin().Host, "https://"))
	defer func() { failed = errors.Join(failed, proxy.Close()) }()
	kubeconfig, err := cluster.Kubeconfig(proxy.Config(cluster.Admin()))
	if err != nil {
		return err
	}
	stay(ctx, kubeconfig,
		"etcd, Kubernetes and three nodes with a real kubelet, which have the images of this repository.")
	return nil
}
