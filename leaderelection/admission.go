package leaderelection

import (
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// podUID is where the API server tells to which Pod the token of a request is bound.
const podUID = "authentication.kubernetes.io/pod-uid"

// AdmissionPolicyConfig says whose writes an [AdmissionPolicy] denies, and which.
type AdmissionPolicyConfig struct {
	// Namespace and Name of the Lease, as in [Config]. Required.
	Namespace, Name string

	// ServiceAccounts that the replicas run as. At least one. Give them to nothing else: all other Pods, and requests
	// without a Pod, are denied the same writes. Whoever is none of them is not affected.
	ServiceAccounts []types.NamespacedName

	// PolicyName of the policy and of its binding; both are cluster-scoped.
	// Default: <Name>.<Namespace>.leader.bellwether.dev.
	PolicyName string

	// Rules are the writes that only the leader may do. Default: all, on subresources too, and connections (exec,
	// attach, portforward, proxy). The API server evaluates the policy for whatever matches Rules, whoever asks: in a
	// large cluster, name what the replicas write.
	Rules []admissionregistrationv1.NamedRuleWithOperations

	// Exempt are writes that every replica may do, besides these: create and update Leases (or nobody could ever take
	// over; deleting them is for the leader), Events, and access and token reviews.
	Exempt []admissionregistrationv1.NamedRuleWithOperations

	// DenyWithoutLease denies also while there is no Lease. It then denies what matches Rules to everybody in the
	// cluster: the API server looks for the Lease before it looks at who is asking. So it requires Rules of your own,
	// on what nobody but the replicas writes. Default: without a Lease nothing is denied. That opens the fence between
	// somebody's deletion of the Lease and its re-creation, in other words only while there is no successor.
	DenyWithoutLease bool
}

// AdmissionPolicy returns a policy, and the binding that puts it into force, by which the API server denies a replica's
// writes while the Lease names another Pod or none. It reaches what nothing in a process can: a request that a leader
// sends after it was stopped, or that the network delivers after its term.
//
// The API server knows the sender's Pod by the token, and the leader's by the end of the holder identity. So replicas
// need the token that the kubelet mounts in their Pod, or one bound to it like that, and an identity of [PodIdentity];
// with any other, even the leader's writes are denied. Requires Kubernetes 1.30.
//
// An API server that has seen a successor's record denies the writes of all other Pods; the denial names the holder. It
// sees the record by a watch of its own, usually within milliseconds of the write. But that is not linearizable, and a
// watch that stalls delays it without limit. What follows from that and from the rest:
//
//   - For the same time a new leader's writes can be denied: retry them.
//   - A write that has been admitted will be committed, also when the Lease changes hands in between.
//   - Policies cannot ask for the time. A leader whose term has expired may write until somebody has taken over.
//   - The unit is the Pod. A container that was restarted in the leader's Pod, and has not been elected again, may write.
//   - Whoever may update the Lease may take it: this stops the late, not the malicious. Whoever may impersonate the
//     service accounts with a Pod's UID, or create tokens for them, can pass for any Pod of theirs.
//   - Only requests to this API server are checked, not reads, and not writes of webhook configurations and admission
//     policies, which it exempts. An aggregated API server does its own admission, and may leave out policies.
//   - An API server that has not been able to read Leases since its start denies what matches Rules to everybody:
//     failurePolicy is Fail.
//
// An admin installs the two objects; that takes the verb create on validatingadmissionpolicies and
// validatingadmissionpolicybindings of admissionregistration.k8s.io, and get on leases in all namespaces. They are in
// force a second or two later. Whoever may write them can disable the fence: the replicas need no right to them.
//
// Change the objects in place; to take the fence out of force, set the binding's validationActions to Audit. Do not
// delete them with the intent to install them again: once no binding of the cluster has a Lease as its parameter, an API
// server stops to watch Leases, and does not resume before it is restarted (kubernetes/kubernetes#130887, open in 1.36).
// A fence that is installed after that decides by Leases as they were.
//
// The error joins one error for every rule that config breaks.
func AdmissionPolicy(config AdmissionPolicyConfig) (
	*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error,
) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, nil, err
	}
	lease := config.Namespace + "/" + config.Name
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   kind("ValidatingAdmissionPolicy"),
		ObjectMeta: metav1.ObjectMeta{Name: config.PolicyName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ParamKind:     &admissionregistrationv1.ParamKind{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			MatchConstraints: &admissionregistrationv1.MatchResources{
				// Or another version of an API would be a way around.
				MatchPolicy:          ptr.To(admissionregistrationv1.Equivalent),
				ResourceRules:        copyRules(config.Rules),
				ExcludeResourceRules: append(alwaysExempt(), copyRules(config.Exempt)...),
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{{
				Name:       "replica",
				Expression: "request.userInfo.username in [" + strings.Join(config.users(), ", ") + "]",
			}},
			Variables: []admissionregistrationv1.Variable{
				{
					Name: "pod",
					Expression: "has(request.userInfo.extra) && '" + podUID + "' in request.userInfo.extra && " +
						"request.userInfo.extra['" + podUID + "'].size() == 1 ? " +
						"request.userInfo.extra['" + podUID + "'][0] : ''",
				},
				{
					Name:       "holder",
					Expression: "has(params.spec) && has(params.spec.holderIdentity) ? params.spec.holderIdentity : ''",
				},
			},
			Validations: []admissionregistrationv1.Validation{
				{
					Expression: "variables.pod != ''",
					Message: "leaderelection: only the leader by lease " + lease + " may do this, " +
						"and this token is not bound to a Pod: use the one that the kubelet mounts",
					Reason: ptr.To(metav1.StatusReasonForbidden),
				},
				{
					// A UID has no underscore, so this compares all of what follows the last one.
					Expression: "variables.holder.endsWith('_' + variables.pod)",
					MessageExpression: "'leaderelection: Pod ' + variables.pod + ' is not the leader: " +
						"lease " + lease + " is held by ' + (variables.holder == '' ? 'nobody' : variables.holder)",
					Message: "leaderelection: this Pod is not the leader by lease " + lease, // if the holder has a newline
					Reason:  ptr.To(metav1.StatusReasonForbidden),
				},
			},
		},
	}
	absent := admissionregistrationv1.AllowAction
	if config.DenyWithoutLease {
		absent = admissionregistrationv1.DenyAction
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   kind("ValidatingAdmissionPolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: config.PolicyName},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: config.PolicyName,
			ParamRef: &admissionregistrationv1.ParamRef{
				Namespace: config.Namespace, Name: config.Name, ParameterNotFoundAction: &absent,
			},
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding, nil
}

func kind(kind string) metav1.TypeMeta { // or the objects could not be marshalled into manifests
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// alwaysExempt is what replicas write that are not leaders.
func alwaysExempt() []admissionregistrationv1.NamedRuleWithOperations {
	createAndUpdate := []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	return []admissionregistrationv1.NamedRuleWithOperations{
		rule(createAndUpdate, []string{coordinationv1.GroupName}, "leases"),
		rule(createAndUpdate, []string{corev1.GroupName, eventsv1.GroupName}, "events"),
		// Nothing but reviews, which the API server leaves out by itself, too, as of 1.36.
		rule(createAndUpdate[:1], []string{authenticationv1.GroupName, authorizationv1.GroupName}, "*"),
	}
}

func rule(
	operations []admissionregistrationv1.OperationType, groups []string, resource string,
) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: groups, APIVersions: []string{"*"}, Resources: []string{resource}},
	}}
}

func copyRules(rules []admissionregistrationv1.NamedRuleWithOperations) []admissionregistrationv1.NamedRuleWithOperations {
	var copies []admissionregistrationv1.NamedRuleWithOperations
	for _, r := range rules {
		copies = append(copies, *r.DeepCopy())
	}
	return copies
}

// users returns the service accounts' user names as CEL strings. Names that are valid need no escapes.
func (c AdmissionPolicyConfig) users() []string {
	var users []string
	for _, account := range c.ServiceAccounts {
		users = append(users, "'system:serviceaccount:"+account.Namespace+":"+account.Name+"'")
	}
	return users
}

func (c AdmissionPolicyConfig) withDefaults() AdmissionPolicyConfig {
	if c.PolicyName == "" {
		c.PolicyName = c.Name + "." + c.Namespace + ".leader.bellwether.dev" // unambiguous: a namespace has no dots
	}
	if len(c.Rules) == 0 && !c.DenyWithoutLease {
		c.Rules = []admissionregistrationv1.NamedRuleWithOperations{
			rule([]admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, []string{"*"}, "*/*"),
		}
	}
	return c
}

// validate returns all rules that c breaks, once its defaults are set.
func (c AdmissionPolicyConfig) validate() error {
	var errs []error
	check := func(field, value string, problems []string) {
		for _, problem := range problems {
			errs = append(errs, fmt.Errorf("leaderelection: %s: %s (got %q)", field, problem, value))
		}
	}
	check("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
	check("Name", c.Name, validation.IsDNS1123Subdomain(c.Name))
	if len(c.ServiceAccounts) == 0 {
		errs = append(errs, errors.New("leaderelection: ServiceAccounts: must name at least one (got none)"))
	}
	for i, account := range c.ServiceAccounts {
		field := fmt.Sprintf("ServiceAccounts[%d]", i)
		check(field+".Namespace", account.Namespace, validation.IsDNS1123Label(account.Namespace))
		check(field+".Name", account.Name, validation.IsDNS1123Subdomain(account.Name))
	}
	check("PolicyName", c.PolicyName, validation.IsDNS1123Subdomain(c.PolicyName))
	if len(c.Rules) == 0 {
		errs = append(errs, errors.New("leaderelection: Rules: must be set with DenyWithoutLease, "+
			"which denies them to everybody (got none)"))
	}
	errs = append(errs, incomplete("Rules", c.Rules)...)
	errs = append(errs, incomplete("Exempt", c.Exempt)...)
	return errors.Join(errs...)
}

func incomplete(field string, rules []admissionregistrationv1.NamedRuleWithOperations) []error {
	var errs []error
	for i, r := range rules {
		if min(len(r.Operations), len(r.APIGroups), len(r.APIVersions), len(r.Resources)) == 0 {
			errs = append(errs, fmt.Errorf("leaderelection: %s[%d]: must have operations, API groups, API versions and resources "+
				"(got %v)", field, i, r.RuleWithOperations))
		}
	}
	return errs
}
