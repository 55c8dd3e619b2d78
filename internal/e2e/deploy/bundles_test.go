package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"
)

// examples are the bundles, with the example that each is made of.
var examples = map[string]string{
	"fencer": "fencer", "sharding": "sharding", "operator": "controllerruntime/operator",
	"election": "leaderelection",
}

// TestBundles applies each bundle, alone and with its components. The API server accepts the Pods
// of its Deployment in the bundle's namespace, which has the Pod Security level restricted.
func TestBundles(t *testing.T) {
	require.NoError(t, shared.Apply(t.Context(), "testdata/monitoring.yaml"))
	eventuallyServed(t)
	for name := range examples {
		for _, directory := range []string{name, "complete/" + name} {
			t.Run(directory, func(t *testing.T) {
				b := render(t, directory)
				b.apply(t)
				d := b.deployment(t)
				requireRestricted(t, d.Namespace)
				require.NoError(t, createPod(t, d.Namespace, d.Spec.Template))
				b.apply(t) // once more: nothing is refused the second time
			})
		}
	}
}

// Every component renders with every bundle that it is for, and what it adds is about the
// Deployment's Pods.
func TestComponents(t *testing.T) {
	for name, example := range examples {
		t.Run(name, func(t *testing.T) {
			plain := with(t, name).deployment(t)

			probed := plain
			if name == "fencer" || name == "election" { // the others have probes
				require.Nil(t, plain.Spec.Template.Spec.Containers[0].LivenessProbe)
				probed = with(t, name, "probes").deployment(t)
			}
			c := probed.Spec.Template.Spec.Containers[0]
			require.Len(t, c.Ports, 1)
			assert.Equal(t, "health", c.Ports[0].Name)
			assert.Contains(t, c.Args, fmt.Sprintf("-health-address=:%d", c.Ports[0].ContainerPort))
			for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
				require.NotNil(t, probe, path)
				assert.Equal(t, path, probe.HTTPGet.Path)
				assert.Equal(t, "health", probe.HTTPGet.Port.StrVal)
			}
			requireFlags(t, example, c.Args)

			budgets := all[policyv1.PodDisruptionBudget](t, with(t, name, "disruption"), "PodDisruptionBudget")
			require.Len(t, budgets, 1)
			assert.Equal(t, about(plain), about(appsv1.Deployment{ObjectMeta: budgets[0].ObjectMeta}))
			assert.Equal(t, plain.Spec.Selector, budgets[0].Spec.Selector)
			assert.Less(t, budgets[0].Spec.MaxUnavailable.IntVal, *plain.Spec.Replicas)

			policies := all[networkingv1.NetworkPolicy](t, with(t, name, "network"), "NetworkPolicy")
			require.Len(t, policies, 1)
			assert.Equal(t, about(plain), about(appsv1.Deployment{ObjectMeta: policies[0].ObjectMeta}))
			assert.Equal(t, *plain.Spec.Selector, policies[0].Spec.PodSelector)

			ranked := with(t, name, "priority")
			classes := all[schedulingv1.PriorityClass](t, ranked, "PriorityClass")
			require.Len(t, classes, 1)
			assert.Equal(t, plain.Name, classes[0].Name, "of the whole cluster: two bundles must not share one")
			assert.Equal(t, classes[0].Name, ranked.deployment(t).Spec.Template.Spec.PriorityClassName)

			schemas := all[flowcontrolv1.FlowSchema](t, with(t, name, "flowcontrol"), "FlowSchema")
			require.Len(t, schemas, 1)
			assert.Equal(t, plain.Name, schemas[0].Name, "of the whole cluster: two bundles must not share one")
			rule := schemas[0].Spec.Rules[0]
			assert.Equal(t, &flowcontrolv1.ServiceAccountSubject{
				Namespace: plain.Namespace, Name: plain.Spec.Template.Spec.ServiceAccountName,
			}, rule.Subjects[0].ServiceAccount)
			assert.Equal(t, []string{plain.Namespace}, rule.ResourceRules[0].Namespaces)
		})
	}
}

// What Prometheus scrapes is the port of the Deployment's Pods, and the rules are the project's.
func TestPrometheusComponent(t *testing.T) {
	text, err := os.ReadFile("../../../metrics/alerts.yaml")
	require.NoError(t, err)
	var alerts monitoringv1.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict(text, &alerts))
	require.NotEmpty(t, alerts.Groups)
	for _, name := range []string{"fencer", "operator"} {
		t.Run(name, func(t *testing.T) {
			b := render(t, "complete/"+name)
			d := b.deployment(t)
			services := all[corev1.Service](t, b, "Service")
			require.Len(t, services, 1)
			s := services[0]
			assert.Equal(t, about(d), about(appsv1.Deployment{ObjectMeta: s.ObjectMeta}))
			assert.Equal(t, d.Spec.Selector.MatchLabels, s.Spec.Selector)
			port := d.Spec.Template.Spec.Containers[0].Ports[0]
			assert.Equal(t, port.Name, s.Spec.Ports[0].TargetPort.StrVal)
			assert.Equal(t, port.ContainerPort, s.Spec.Ports[0].Port)

			monitors := all[monitoringv1.ServiceMonitor](t, b, "ServiceMonitor")
			require.Len(t, monitors, 1)
			m := monitors[0]
			assert.Equal(t, about(d), about(appsv1.Deployment{ObjectMeta: m.ObjectMeta}))
			assert.Equal(t, s.Labels, m.Spec.Selector.MatchLabels)
			assert.Equal(t, map[string]string{"app": d.Name}, s.Labels)
			require.Len(t, m.Spec.Endpoints, 1)
			assert.Equal(t, s.Spec.Ports[0].Name, m.Spec.Endpoints[0].Port)
			assert.Equal(t, "/metrics", m.Spec.Endpoints[0].Path)

			rules := all[monitoringv1.PrometheusRule](t, b, "PrometheusRule")
			require.Len(t, rules, 1)
			assert.Equal(t, about(d), about(appsv1.Deployment{ObjectMeta: rules[0].ObjectMeta}))
			assert.Equal(t, alerts, rules[0].Spec, "the component's alerts.yaml is not metrics/alerts.yaml")
		})
	}
}

// The dashboards are ConfigMaps, small enough for the API server.
func TestDashboards(t *testing.T) {
	b := parse(t, repository(t), "/metrics/dashboards")
	files, err := filepath.Glob("../../../metrics/dashboards/*.json")
	require.NoError(t, err)
	maps := all[corev1.ConfigMap](t, b, "ConfigMap")
	require.Len(t, maps, len(files))
	for _, m := range maps {
		assert.Equal(t, map[string]string{"grafana_dashboard": "1"}, m.Labels)
		assert.Len(t, m.Data, 1)
	}
	for _, object := range b {
		object.SetNamespace("default")
	}
	b.apply(t)
}

// The rights are given to the account that the Pods have, in the namespace in which they are.
func TestBundlesBindTheirAccounts(t *testing.T) {
	for name := range examples {
		t.Run(name, func(t *testing.T) {
			b := render(t, name)
			d := b.deployment(t)
			accounts := all[corev1.ServiceAccount](t, b, "ServiceAccount")
			require.Len(t, accounts, 1)
			assert.Equal(t, d.Namespace, accounts[0].Namespace)
			assert.Equal(t, d.Spec.Template.Spec.ServiceAccountName, accounts[0].Name)
			bindings := all[rbacv1.RoleBinding](t, b, "RoleBinding")
			require.NotEmpty(t, bindings)
			subjects := []rbacv1.Subject{}
			for _, binding := range bindings {
				subjects = append(subjects, binding.Subjects...)
			}
			for _, binding := range all[rbacv1.ClusterRoleBinding](t, b, "ClusterRoleBinding") {
				subjects = append(subjects, binding.Subjects...)
			}
			for _, subject := range subjects {
				assert.Equal(t, rbacv1.Subject{Kind: "ServiceAccount", Namespace: d.Namespace, Name: accounts[0].Name},
					subject)
			}
		})
	}
}

// What must exist before other objects comes first: kubectl applies in this order.
func TestOrder(t *testing.T) {
	for _, name := range []string{"fencer", "operator"} {
		t.Run(name, func(t *testing.T) {
			order := map[string]int{}
			for i, object := range render(t, "complete/"+name) {
				if _, ok := order[object.GetKind()]; !ok {
					order[object.GetKind()] = i
				}
			}
			first := []string{
				"Namespace", "CustomResourceDefinition", "ServiceAccount", "Role", "ClusterRole", "RoleBinding",
				"ClusterRoleBinding", "Deployment",
			}
			for i, kind := range first {
				require.Contains(t, order, kind)
				if i > 0 {
					assert.Less(t, order[first[i-1]], order[kind], "%s before %s", first[i-1], kind)
				}
			}
		})
	}
}

// eventuallyServed waits until the API server serves the Prometheus operator's custom resources.
func eventuallyServed(t testing.TB) {
	t.Helper()
	groups, err := discovery.NewDiscoveryClientForConfig(shared.Admin())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		served, err := groups.ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		return err == nil && len(served.APIResources) == 2
	}, time.Minute, 50*time.Millisecond)
}

func about(d appsv1.Deployment) string { return d.Namespace + "/" + d.Name }

// createPod asks the API server whether it would create a Pod of the template.
func createPod(t testing.TB, namespace string, template corev1.PodTemplateSpec) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.GenerateName = "pod-"
	_, err = client.CoreV1().Pods(namespace).Create(t.Context(), pod,
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// requireRestricted requires that the namespace refuses a Pod that could become root.
func requireRestricted(t testing.TB, namespace string) {
	t.Helper()
	err := createPod(t, namespace, corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "root", Image: "root",
	}}}})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, `violates PodSecurity "restricted:latest"`)
}

// requireFlags requires that the example has the flags that it is started with.
func requireFlags(t testing.TB, example string, args []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../../examples", example, "*.go"))
	require.NoError(t, err)
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code.Write(text)
	}
	require.NotEmpty(t, args)
	for _, arg := range args {
		name := regexp.MustCompile(`^-([\w-]+)`).FindStringSubmatch(arg)
		require.NotNil(t, name, arg)
		assert.Regexp(t, `\bflag\.\w+\([^"]*"`+name[1]+`"`, code.String(), "%s has no such flag", example)
	}
}
