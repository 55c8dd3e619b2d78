package endpoints_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// example is where the manifests are that users copy.
const example = "../../../examples/endpoints"

// TestManifests deploys the example as its manifests say, then runs its container's command line
// with the tokens of its Pods: what is written there has to be enough.
func TestManifests(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"service.yaml", "rbac.yaml", "deployment.yaml"} {
		apply(t, name)
	}
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	var pods *corev1.PodList
	require.Eventually(t, func() bool {
		pods, err = client.CoreV1().Pods("default").List(t.Context(),
			metav1.ListOptions{LabelSelector: "app=example-server", FieldSelector: "status.phase=Running"})
		return err == nil && len(pods.Items) == 3
	}, patience, poll, "the Deployment's Pods do not run")
	program, err := shared.Program(t.Context(), exampleProgram, e2e.Race()...)
	require.NoError(t, err)
	var running []*e2e.Process
	var want []string
	for _, pod := range pods.Items {
		running = append(running, startContainer(t, program, &pod))
		want = append(want, pod.Status.PodIP)
	}
	slices.Sort(want)
	listed := func() []string {
		list, err := client.DiscoveryV1().EndpointSlices("default").List(t.Context(),
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=example-server"})
		require.NoError(t, err)
		all := []string{}
		for _, s := range list.Items {
			for _, e := range s.Endpoints {
				all = append(all, e.Addresses...)
			}
		}
		slices.Sort(all)
		return all
	}
	require.Eventually(t, func() bool { return slices.Equal(want, listed()) }, patience, poll, "never published %v",
		want)
	c := &cluster{t: t}
	for _, p := range running {
		c.requireEnd(p)
		for _, wrong := range []string{
			"not allowed", "round failed in part, retrying",
			"cannot use the settings, keeping the last expire-duration",
		} {
			assert.NotContains(t, c.log(p), wrong, "the Role is not enough")
		}
	}
	assert.Empty(t, listed())
}

// startContainer runs the command line of a Pod's container.
func startContainer(t *testing.T, program string, pod *corev1.Pod) *e2e.Process {
	t.Helper()
	config, err := shared.ServiceAccount(t.Context(), pod.Namespace, pod.Spec.ServiceAccountName, pod)
	require.NoError(t, err)
	kubeconfig, err := shared.Kubeconfig(config)
	require.NoError(t, err)
	var ips []string
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	fields := map[string]string{
		"metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID), "status.podIPs": strings.Join(ips, ","),
	}
	args := []string{"-listen=127.0.0.1:0", "-linger=0s"}
	container := pod.Spec.Containers[0]
	for _, arg := range container.Args {
		for _, variable := range container.Env {
			arg = strings.ReplaceAll(arg, "$("+variable.Name+")", fields[variable.ValueFrom.FieldRef.FieldPath])
		}
		args = append(args, arg)
	}
	p, err := shared.Run(e2e.Command{
		Name: pod.Name, Path: program, Args: args,
		Env: []string{"KUBECONFIG=" + kubeconfig, "GORACE=halt_on_error=1 atexit_sleep_ms=0"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// apply creates what a manifest of the example says. Fields that the API server does not know are
// errors.
func apply(t *testing.T, name string) {
	t.Helper()
	file, err := os.Open(filepath.Join(example, name))
	require.NoError(t, err)
	defer file.Close()
	groups, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	resources, err := restmapper.GetAPIGroupResources(groups)
	require.NoError(t, err)
	mapper := restmapper.NewDiscoveryRESTMapper(resources)
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(t, err)
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var object unstructured.Unstructured
		err := documents.Decode(&object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		require.NoError(t, err)
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).
			Create(t.Context(), &object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.NoError(t, err, "%s: %s %s", name, kind.Kind, object.GetName())
	}
}
