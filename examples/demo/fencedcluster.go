package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

const (
	fencerNamespace = "fencer" // that of the manifests of examples/fencer
	database        = "db"
)

// fencedCluster is the demo's control plane, with nodes that may be fenced.
type fencedCluster struct {
	cp        *e2e.ControlPlane
	namespace string // of the database
	client    kubernetes.Interface
	dynamic   dynamic.Interface
}

func newFencedCluster(s *stage) (*fencedCluster, error) {
	client, err := kubernetes.NewForConfig(s.cp.Admin())
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(s.cp.Admin())
	return &fencedCluster{cp: s.cp, namespace: s.namespace, client: client, dynamic: dyn}, err
}

// prepare does what an admin does before the first fence.
func (c *fencedCluster) prepare(ctx context.Context, bmc *lab.Device) error {
	for _, manifest := range []string{
		"../../fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml",
		"../fencer/rbac.yaml",
	} {
		if err := c.cp.Apply(ctx, filepath.FromSlash(manifest)); err != nil {
			return err
		}
	}
	if err := c.configure(ctx, bmc); err != nil {
		return err
	}
	if err := c.install(ctx); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, glance, patience, true, func(ctx context.Context) (bool, error) {
		now, err := c.look(ctx)
		return err == nil && now.podNode == lostNode, nil // the custom resource takes a moment to be served
	}); err != nil {
		return fmt.Errorf("the database does not run on node %s: %w", lostNode, err)
	}
	return nil
}

// configure sets how the node is fenced, as examples/fencer/configuration.yaml does: by its BMC,
// with the password in a Secret.
func (c *fencedCluster) configure(ctx context.Context, bmc *lab.Device) error {
	_, err := c.client.CoreV1().Secrets(fencerNamespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "power"}, StringData: map[string]string{"bmc": bmc.Parameters["password"]},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	method := func(action string) string {
		return fmt.Sprintf("template=fence-method-template-bmc\nip=%s\nipport=%s\nsettle=%v\naction=%s\n",
			bmc.Parameters["ip"], bmc.Parameters["ipport"], settle, action)
	}
	for name, data := range map[string]map[string]string{
		"fence-config-node-" + lostNode: {
			"config.properties": strings.Join([]string{
				"node_name=" + lostNode, "isolation=mark-unschedulable", "power_management=bmc-off bmc-on",
				"recovery=mark-schedulable",
				fmt.Sprintf("not_ready_for=%v", notReadyFor), fmt.Sprintf("power_wait=%v", powerWait),
			}, "\n"),
			"fence-method-bmc-off": method("off"),
			"fence-method-bmc-on":  method("on"),
		},
		"fence-method-template-bmc": {
			"template.properties": "agent_name=" + bmc.Agent + "\nusername=" + bmc.Parameters["username"] +
				"\npassword.secret=power/bmc\nlanplus=1\ncipher=3\npower_wait=0\n",
		},
	} {
		_, err := c.client.CoreV1().ConfigMaps(fencerNamespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// install creates the database, which prefers the node that will be lost but may run on the spare one.
func (c *fencedCluster) install(ctx context.Context) error {
	labels := map[string]string{"app": database}
	on := func(nodes ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
		}}
	}
	_, err := c.client.AppsV1().StatefulSets(c.namespace).Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: database},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: database, Image: "none.invalid/none"}},
				Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{on(lostNode, spareNode)},
					},
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
						Weight:     100,
						Preference: on(lostNode),
					}},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

// fencerConfig writes the kubeconfig of the fencer's service account.
func (c *fencedCluster) fencerConfig(ctx context.Context) (path string, err error) {
	config, err := c.cp.ServiceAccount(ctx, fencerNamespace, "fencer", nil)
	if err != nil {
		return "", err
	}
	return c.cp.Kubeconfig(config)
}

// look reads the node, its fence and the Pod.
func (c *fencedCluster) look(ctx context.Context) (sight, error) {
	var now sight
	node, err := c.client.CoreV1().Nodes().Get(ctx, lostNode, metav1.GetOptions{})
	if err != nil {
		return sight{}, err
	}
	for _, condition := range node.Status.Conditions {
		is := condition.Status == corev1.ConditionTrue
		switch condition.Type {
		case corev1.NodeReady:
			now.ready = is
		case "FenceReady":
			now.checked = is
		}
	}
	now.marked = len(marks(node)) > 0
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(ctx, database+"-0", metav1.GetOptions{})
	switch {
	case err == nil:
		now.pod = pod.UID
		if pod.Status.Phase == corev1.PodRunning {
			now.podNode = pod.Spec.NodeName
		}
	case !apierrors.IsNotFound(err):
		return sight{}, err
	}
	fence, err := c.dynamic.Resource(v1alpha1.Resource()).Get(ctx, v1alpha1.Name(lostNode), metav1.GetOptions{})
	switch {
	case err == nil:
		var record v1alpha1.NodeFence
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fence.Object, &record); err != nil {
			return sight{}, err
		}
		now.phase = record.Status.Phase
	case !apierrors.IsNotFound(err):
		return sight{}, err
	}
	return now, nil
}

// marks returns the taints of a node that keep Pods from it.
func marks(node *corev1.Node) []string {
	var all []string
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1alpha1.TaintFenced || taint.Key == corev1.TaintNodeOutOfService {
			all = append(all, taint.Key)
		}
	}
	return all
}

// requireUnmarked waits until the node accepts Pods, because Kubernetes needs a moment to remove
// its own taints.
func (c *fencedCluster) requireUnmarked(ctx context.Context) error {
	var node *corev1.Node
	err := wait.PollUntilContextTimeout(ctx, glance, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		var err error
		node, err = c.client.CoreV1().Nodes().Get(ctx, lostNode, metav1.GetOptions{})
		return err == nil && len(node.Spec.Taints) == 0 && !node.Spec.Unschedulable, err
	})
	if err != nil {
		return fmt.Errorf("node %s is not schedulable: %w: taints %v", lostNode, err, node.Spec.Taints)
	}
	return nil
}
