package admission_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/leaderelection/admission"
)

var daemon = admission.PolicyConfig{
	Namespace: "default", Name: "example-daemon",
	ServiceAccounts: []types.NamespacedName{{Namespace: "default", Name: "example-daemon"}},
}

// deployments is an example rule.
var deployments = admissionregistrationv1.NamedRuleWithOperations{
	RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"apps"}, APIVersions: []string{"*"},
			Resources: []string{"deployments"},
		},
	},
}

func TestPolicyIsTheExampleManifest(t *testing.T) {
	policy, binding, err := admission.Policy(daemon)
	require.NoError(t, err)
	manifest, err := os.ReadFile("../../examples/leaderelection/fence.yaml")
	require.NoError(t, err)
	documents := bytes.Split(manifest, []byte("\n---\n"))
	require.Len(t, documents, 2)
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for i, want := range []runtime.Object{policy, binding} {
		got, _, err := decoder.Decode(documents[i], nil, nil)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestPolicyUsesItsConfig(t *testing.T) {
	config := daemon
	config.PolicyName = "fence"
	config.ServiceAccounts = append(config.ServiceAccounts, types.NamespacedName{Namespace: "other", Name: "helper"})
	config.Rules = []admissionregistrationv1.NamedRuleWithOperations{*deployments.DeepCopy()}
	config.Exempt = []admissionregistrationv1.NamedRuleWithOperations{*deployments.DeepCopy()}
	config.Exempt[0].ResourceNames = []string{"shared"}
	config.DenyWithoutLease = true
	policy, binding, err := admission.Policy(config)
	require.NoError(t, err)
	assert.Equal(t, []string{"fence", "fence", "fence"}, []string{policy.Name, binding.Name, binding.Spec.PolicyName})
	assert.Equal(t, admissionregistrationv1.DenyAction, *binding.Spec.ParamRef.ParameterNotFoundAction)
	constraints := policy.Spec.MatchConstraints
	assert.Equal(t, config.Rules, constraints.ResourceRules)
	assert.Equal(t, config.Exempt[0], constraints.ExcludeResourceRules[len(constraints.ExcludeResourceRules)-1])
	assert.Equal(t,
		"request.userInfo.username in ['system:serviceaccount:default:example-daemon', "+
			"'system:serviceaccount:other:helper']",
		policy.Spec.MatchConditions[0].Expression)

	constraints.ResourceRules[0].Resources[0] = "changed"
	constraints.ExcludeResourceRules[0].Operations[0] = "changed"
	assert.Equal(t, "deployments", config.Rules[0].Resources[0], "the caller's value is copied")
	again, _, err := admission.Policy(config)
	require.NoError(t, err)
	assert.NotEqual(t, constraints.ExcludeResourceRules[0], again.Spec.MatchConstraints.ExcludeResourceRules[0])
}

func TestBadPolicyConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*admission.PolicyConfig)
		want   []string // in the message: field, rule, value
	}{
		{
			"no namespace", func(c *admission.PolicyConfig) { c.Namespace = "" },
			[]string{": Namespace: ", "lower case alphanumeric", `""`},
		},
		{
			"name that ends a string of CEL", func(c *admission.PolicyConfig) { c.Name = "a' + 'b" },
			[]string{": Name: ", "lower case alphanumeric", `"a' + 'b"`},
		},
		{
			"no service account", func(c *admission.PolicyConfig) { c.ServiceAccounts = nil },
			[]string{"ServiceAccounts: ", "at least one", "none"},
		},
		{"service account without a namespace", func(c *admission.PolicyConfig) {
			c.ServiceAccounts = []types.NamespacedName{{Name: "a"}}
		}, []string{"ServiceAccounts[0].Namespace: ", "lower case alphanumeric", `""`}},
		{"service account that ends a string of CEL", func(c *admission.PolicyConfig) {
			c.ServiceAccounts = []types.NamespacedName{{Namespace: "a", Name: "a"}, {Namespace: "a", Name: "a'"}}
		}, []string{"ServiceAccounts[1].Name: ", "lower case alphanumeric", `"a'"`}},
		{
			"policy name in capitals", func(c *admission.PolicyConfig) { c.PolicyName = "Fence" },
			[]string{"PolicyName: ", "lower case alphanumeric", `"Fence"`},
		},
		{
			"default policy name too long", func(c *admission.PolicyConfig) { c.Name = strings.Repeat("a", 250) },
			[]string{"PolicyName: ", "no more than 253", "aaaa"},
		},
		{
			"all writes denied to all users", func(c *admission.PolicyConfig) { c.DenyWithoutLease = true },
			[]string{"Rules: ", "DenyWithoutLease", "none"},
		},
		{"incomplete rule", func(c *admission.PolicyConfig) {
			c.Rules = []admissionregistrationv1.NamedRuleWithOperations{deployments, *deployments.DeepCopy()}
			c.Rules[1].APIGroups = nil
		}, []string{"Rules[1]: ", "API groups", "deployments"}},
		{"incomplete exemption", func(c *admission.PolicyConfig) {
			c.Exempt = make([]admissionregistrationv1.NamedRuleWithOperations, 1)
		}, []string{"Exempt[0]: ", "operations"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := daemon
			c.change(&config)
			policy, binding, err := admission.Policy(config)
			assert.Nil(t, policy)
			assert.Nil(t, binding)
			for _, part := range append(c.want, "admission: ") {
				require.ErrorContains(t, err, part)
			}
		})
	}
	_, _, err := admission.Policy(admission.PolicyConfig{PolicyName: "-"})
	for _, field := range []string{"Namespace", "Name", "ServiceAccounts", "PolicyName"} {
		assert.ErrorContains(t, err, "admission: "+field+": ")
	}
}

func ExamplePolicy() {
	policy, binding, err := admission.Policy(admission.PolicyConfig{
		Namespace: "default", Name: "my-controller",
		ServiceAccounts: []types.NamespacedName{{Namespace: "default", Name: "my-controller"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Create them with an admin's clientset (AdmissionregistrationV1), or marshal them into your
	// manifests.
	fmt.Println(policy.Kind, policy.Name)
	fmt.Println(binding.Kind, binding.Name)
	// Output:
	// ValidatingAdmissionPolicy my-controller.default.leader.bellwether.dev
	// ValidatingAdmissionPolicyBinding my-controller.default.leader.bellwether.dev
}
