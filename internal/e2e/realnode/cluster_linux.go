package realnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// readyTimeout is how long nodes may take to become Ready. It takes 10 s on 2 idle cores.
const readyTimeout = 2 * time.Minute

// Options are those of a cluster.
type Options struct {
	// Nodes are the names of the nodes.
	Nodes []string
	// Images are what containers execute, by the name of the image.
	Images map[string]Image
	// Archive has more images, as WriteArchive of package image writes them. Empty: none.
	Archive string
	// AuditPolicy is the audit policy of the API server, as a file. Default: that of package e2e.
	AuditPolicy string
	// Eviction is, by node, the memory that has to be available: with less the kubelet evicts.
	// Default: 100Mi.
	Eviction map[string]string
}

// Cluster is a control plane with real nodes.
type Cluster struct {
	*e2e.ControlPlane
	Client kubernetes.Interface
	nodes  map[string]*Node
}

// Need skips a test where there is no cluster, and says why.
func (c *Cluster) Need(t testing.TB) {
	t.Helper()
	if c == nil {
		t.Skip(Missing())
	}
}

// Node is that of this name.
func (c *Cluster) Node(name string) *Node { return c.nodes[name] }

// New starts a cluster in a sandbox ([Inside]), once in a process, and returns when the nodes are
// Ready.
func New(ctx context.Context, options Options) (*Cluster, error) {
	if err := settle(); err != nil {
		return nil, err
	}
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", gateway + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := ip(arguments...); err != nil {
			return nil, err
		}
	}
	for i := range options.Nodes {
		if err := ip("route", "add", podsOf(i+1), "via", address(i+1)); err != nil {
			return nil, err
		}
	}
	cp, err := e2e.New(ctx, e2e.Options{
		ControllerManager: true, Scheduler: true, Address: gateway, AuditPolicy: options.AuditPolicy,
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: cp, nodes: map[string]*Node{}}
	if c.Client, err = kubernetes.NewForConfig(cp.Admin()); err == nil {
		err = c.startNodes(ctx, options)
	}
	if err != nil {
		return nil, fmt.Errorf("realnode: start nodes (logs in %s): %w", cp.Dir, errors.Join(err, c.stop()))
	}
	return c, nil
}

// Close ends everything, and removes the files.
func (c *Cluster) Close() error { return errors.Join(c.stop(), c.ControlPlane.Close()) }

// stop switches all nodes off.
func (c *Cluster) stop() error {
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.Off())
	}
	return errors.Join(errs...)
}

func (c *Cluster) startNodes(ctx context.Context, options Options) error {
	built := map[string]Image{pauseImage: {Program: e2e.Module + "/realnode/pause"}}
	maps.Copy(built, options.Images)
	for name, image := range built {
		path, err := c.ProgramOf(ctx, image.Module, image.Program)
		if err != nil {
			return err
		}
		more := map[string]string{}
		for file, program := range image.More {
			if more[file], err = c.Program(ctx, program); err != nil {
				return err
			}
		}
		built[name] = Image{Program: path, Arguments: image.Arguments, More: more}
	}
	images := filepath.Join(c.Dir, "images.tar")
	if err := writeImages(images, built); err != nil {
		return err
	}
	archives := []string{images}
	if options.Archive != "" {
		archives = []string{options.Archive, images}
	}
	program, err := e2e.NodeBinary(ctx, os.Stderr)
	if err != nil {
		return err
	}
	for i, name := range options.Nodes {
		n := &Node{Name: name, Dir: filepath.Join(c.Dir, name)}
		n.boot = boot{Name: name, Dir: n.Dir, Index: i + 1, Images: archives, Program: program}
		for other := range options.Nodes {
			if other != i {
				n.boot.Others = append(n.boot.Others, other+1)
			}
		}
		if n.boot.Cgroups, err = cgroupsBelow(name); err != nil {
			return err
		}
		eviction := options.Eviction[name]
		if eviction == "" {
			eviction = "100Mi"
		}
		if err := c.writeDisk(n, eviction); err != nil {
			return err
		}
		c.nodes[name] = n
		if err := n.On(); err != nil {
			return err
		}
	}
	for _, name := range options.Nodes {
		if err := c.Ready(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// writeDisk writes what a node's daemons read.
func (c *Cluster) writeDisk(n *Node, eviction string) error {
	plugins := filepath.Join(n.Dir, "lib", networkDir)
	if err := errors.Join(os.MkdirAll(plugins, 0o755), os.MkdirAll(filepath.Join(n.Dir, "log"), 0o755)); err != nil {
		return err
	}
	files := map[string]string{
		authorityFile:     string(c.Admin().CAData),
		"containerd.toml": containerdConfig,
		"kubelet.yaml":    kubeletConfig(n.Dir, eviction),
		"kube-proxy.yaml": proxyConfig(n.Name, filepath.Join(n.Dir, "kube-proxy.conf")),
		filepath.Join("lib", networkDir, "pods.conflist"): networkConfig(n.boot.Index),
	}
	for file, user := range map[string]*rest.Config{
		"kubelet.conf":    c.User("system:node:"+n.Name, "system:nodes"),
		"kube-proxy.conf": c.User("system:kube-proxy"),
	} {
		server, err := url.Parse(user.Host)
		if err != nil {
			return err
		}
		user.Host = "https://" + gateway + ":" + server.Port()
		path, err := c.Kubeconfig(user)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files[file] = string(content)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(n.Dir, file), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// PodReady reports whether a Pod is Ready.
func PodReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Ready returns when a node is Ready.
func (c *Cluster) Ready(ctx context.Context, name string) error {
	return c.awaitReady(ctx, name, corev1.ConditionTrue)
}

// Lost returns when the control plane has not heard of a node for so long that it is Unknown.
func (c *Cluster) Lost(ctx context.Context, name string) error {
	return c.awaitReady(ctx, name, corev1.ConditionUnknown)
}

func (c *Cluster) awaitReady(ctx context.Context, name string, want corev1.ConditionStatus) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	now := corev1.ConditionStatus("absent")
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				now = condition.Status
			}
		}
		return now == want, nil
	})
	if err != nil {
		return fmt.Errorf("realnode: node %s is Ready: %s, not %s: %w", name, now, want, err)
	}
	return nil
}
