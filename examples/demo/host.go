package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kubelet"
)

// host has the nodes of Pods, whose kubelets it plays, and what Pods' processes get.
type host interface {
	// about describes which parts are simulated.
	about() string
	// grant loads roles.
	grant(ctx context.Context, manifests ...string) error
	// kubelet returns the kubelet of a node.
	kubelet(node string) stoppable
	// kubeconfig returns a file with the credentials of a Pod.
	kubeconfig(ctx context.Context, pod *corev1.Pod) (name string, err error)
	close() error
}

// stoppable does nothing while it is paused.
type stoppable interface {
	Pause() error
	Resume() error
}

// host returns the host of the control plane.
func (s *stage) host(ctx context.Context, client kubernetes.Interface) host {
	if s.server == nil {
		return kubernetesHost{s.cp}
	}
	h := pretendedHost{s.server, s.dir, map[string]*kubelet.Kubelet{}}
	for _, node := range nodes {
		h.kubelets[node] = kubelet.Start(ctx, client.CoreV1().Pods(s.namespace), node)
	}
	return h
}

// kubernetesHost is a control plane of ours, with nodes that KWOK plays.
type kubernetesHost struct{ cp *e2e.ControlPlane }

func (kubernetesHost) about() string { return "Their kubelets are played by KWOK." }

func (h kubernetesHost) grant(ctx context.Context, manifests ...string) error {
	for _, manifest := range manifests {
		if err := h.cp.Apply(ctx, manifest); err != nil {
			return err
		}
	}
	return nil
}

func (h kubernetesHost) kubelet(node string) stoppable { return h.cp.Node(node) }

func (h kubernetesHost) kubeconfig(ctx context.Context, pod *corev1.Pod) (string, error) {
	config, err := h.cp.ServiceAccount(ctx, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	if err != nil {
		return "", err
	}
	return h.cp.Kubeconfig(config)
}

func (kubernetesHost) close() error { return nil }

// pretendedHost is an API server in memory and kubelets of this process.
type pretendedHost struct {
	server   *apisim.Standalone
	dir      string
	kubelets map[string]*kubelet.Kubelet
}

func (pretendedHost) about() string {
	return "Their kubelets are played by the demo. Roles are not simulated: each may do everything."
}

func (pretendedHost) grant(context.Context, ...string) error { return nil }

func (h pretendedHost) kubelet(node string) stoppable { return h.kubelets[node] }

func (h pretendedHost) kubeconfig(_ context.Context, pod *corev1.Pod) (string, error) {
	content, err := h.server.KubeconfigOf(pod)
	if err != nil {
		return "", err
	}
	name := filepath.Join(h.dir, "kubeconfig-"+pod.Name)
	return name, os.WriteFile(name, content, 0o600)
}

func (h pretendedHost) close() (err error) {
	for _, k := range h.kubelets {
		err = errors.Join(err, k.Close())
	}
	return err
}
