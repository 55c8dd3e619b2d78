package admission

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

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// podUID is the key of the extra user info that names the Pod to which a request's token is bound.
const podUID = "authentication.kubernetes.io/pod-uid"

// PolicyConfig configures [Policy].
type PolicyConfig struct {
	// Namespace and Name of the Lease, as in leaderelection.Config. Required.
	Namespace, Name string

	// ServiceAccounts of the replicas. At least one. Use them for nothing else: other Pods with
	// them, and requests without a Pod, are denied the same writes. Other users are not affected.
	ServiceAccounts []types.NamespacedName

	// PolicyName is the name of the policy and of its binding, which are cluster-scoped.
	// Default: <Name>.<Namespace>.leader.bellwether.dev.
	PolicyName string

	// Rules are the writes that only the leader may do. Default: all writes, including those on
	// subresources, and connections (exec, attach, portforward, proxy). The API server evaluates
	// the policy for each request that matches Rules, from any user, so in a large cluster, name
	// what the replicas write.
	Rules []admissionregistrationv1.NamedRuleWithOperations

	// Exempt are writes that every replica may do. Always exempt are: create and update of Leases
	// (or no replica could take over; only the leader may delete them) and of Events, and create of
	// access and token reviews.
	Exempt []admissionregistrationv1.NamedRuleWithOperations

	// DenyWithoutLease also denies while the Lease does not exist. It then denies what matches
	// Rules to all users of the cluster, because the API server looks up the Lease before it checks
	// the user. Rules is therefore required, and must match only what the replicas write. Default:
	// false, nothing is denied without a Lease. The fence is then open after the Lease is deleted,
	// until a replica creates it again: while there is no successor.
	DenyWithoutLease bool
}

// Policy returns a ValidatingAdmissionPolicy and the binding that enforces it. With it, the API
// server denies a replica's writes unless the Lease names its Pod. It stops requests that no code
// in the process can stop: those sent after the leader was paused, or delivered after its term.
//
// The API server learns the sender's Pod from the token and the leader's Pod from the end of the
// holder identity. Replicas therefore need the token that the kubelet mounts, or another one bound
// to the Pod, and an identity from [PodIdentity]. With any other identity, the leader's writes are
// denied too. Requires Kubernetes 1.30.
//
// An API server that has seen a successor's record denies the writes of all other Pods; the message
// names the holder. It learns of the record from its own watch, usually within milliseconds of the
// write. This is not linearizable, because a stalled watch delays it without limit. As a result:
//
//   - A new leader's writes can be denied for that time, so retry them.
//   - A write that was admitted is committed, even if the Lease changes hands in between.
//   - Policies cannot read the time, so a leader whose term has expired may write until another one
//     has taken over.
//   - The unit is the Pod, so a container that was restarted in the leader's Pod may write before
//     it is elected again.
//   - A user who may update the Lease can take it, because the policy stops late writes, not an
//     attacker. A user who may impersonate the service accounts with a Pod's UID, or create tokens
//     for them, can pass for any of their Pods.
//   - Only writes to this API server are checked. It exempts webhook configurations and admission
//     policies. An aggregated API server does its own admission, and may not evaluate policies.
//   - An API server that has not read Leases since its start denies what matches Rules to all
//     users: failurePolicy is Fail.
//
// An admin installs both objects and needs these verbs: create on validatingadmissionpolicies and
// validatingadmissionpolicybindings of admissionregistration.k8s.io, and get on leases in all
// namespaces. The objects take effect after a second or two. A user who may write them can disable
// the fence; replicas need no access to them.
//
// Change the objects in place. To disable the fence, set the binding's validationActions to Audit.
// Do not delete the objects in order to install them again later: when no binding of the cluster
// has a Lease as its parameter, an API server stops watching Leases until it is restarted
// (kubernetes/kubernetes#130887, open in 1.37). A fence that is installed after that uses outdated
// Leases.
//
// The error joins one error for each rule that config breaks.
func Policy(config PolicyConfig) (
	*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
	error,
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
			ParamKind: &admissionregistrationv1.ParamKind{
				APIVersion: coordinationv1.SchemeGroupVersion.String(),
				Kind:       "Lease",
			},
			MatchConstraints: &admissionregistrationv1.MatchResources{
				// Equivalent also matches other versions of an API.
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
					// A UID has no underscore, so this compares everything after the last one.
					Expression: "variables.holder.endsWith('_' + variables.pod)",
					MessageExpression: "'leaderelection: Pod ' + variables.pod + ' is not the leader: " +
						"lease " + lease + " is held by ' + (variables.holder == '' ? 'no process' : variables.holder)",
					// if the holder has a newline
					Message: "leaderelection: this Pod is not the leader by lease " + lease,
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

func kind(kind string) metav1.TypeMeta { // needed to marshal the objects into manifests
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// alwaysExempt returns the writes of replicas that do not lead.
func alwaysExempt() []admissionregistrationv1.NamedRuleWithOperations {
	createAndUpdate := []admissionregistrationv1.OperationType{
		admissionregistrationv1.Create,
		admissionregistrationv1.Update,
	}
	return []admissionregistrationv1.NamedRuleWithOperations{
		rule(createAndUpdate, []string{coordinationv1.GroupName}, "leases"),
		rule(createAndUpdate, []string{corev1.GroupName, eventsv1.GroupName}, "events"),
		// These groups hold only reviews, which the API server itself exempts as of 1.36.
		rule(createAndUpdate[:1], []string{authenticationv1.GroupName, authorizationv1.GroupName}, "*"),
	}
}

func rule(
	operations []admissionregistrationv1.OperationType, groups []string, resource string,
) admissionregistrationv1.NamedRuleWithOperations {
	return admissionregistrationv1.NamedRuleWithOperations{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: operations,
			Rule: admissionregistrationv1.Rule{
				APIGroups: groups, APIVersions: []string{"*"},
				Resources: []string{resource},
			},
		},
	}
}

func copyRules(
	rules []admissionregistrationv1.NamedRuleWithOperations,
) []admissionregistrationv1.NamedRuleWithOperations {
	var copies []admissionregistrationv1.NamedRuleWithOperations
	for _, r := range rules {
		copies = append(copies, *r.DeepCopy())
	}
	return copies
}

// users returns the service accounts' user names as CEL strings. Valid names need no escapes.
func (c PolicyConfig) users() []string {
	var users []string
	for _, account := range c.ServiceAccounts {
		users = append(users, "'system:serviceaccount:"+account.Namespace+":"+account.Name+"'")
	}
	return users
}

func (c PolicyConfig) withDefaults() PolicyConfig {
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

// validate returns one error for each rule that c breaks. Defaults must be set.
func (c PolicyConfig) validate() error {
	review := kube.Review{Package: "admission"}
	review.Value("Namespace", c.Namespace, validation.IsDNS1123Label(c.Namespace))
	review.Value("Name", c.Name, validation.IsDNS1123Subdomain(c.Name))
	if len(c.ServiceAccounts) == 0 {
		review.Add(errors.New("ServiceAccounts: must name at least one (got none)"))
	}
	for i, account := range c.ServiceAccounts {
		field := fmt.Sprintf("ServiceAccounts[%d]", i)
		review.Value(field+".Namespace", account.Namespace, validation.IsDNS1123Label(account.Namespace))
		review.Value(field+".Name", account.Name, validation.IsDNS1123Subdomain(account.Name))
	}
	review.Value("PolicyName", c.PolicyName, validation.IsDNS1123Subdomain(c.PolicyName))
	if len(c.Rules) == 0 {
		review.Add(fmt.Errorf("%s: must be set with DenyWithoutLease, which denies them to all users (got none)",
			"Rules"))
	}
	review.Add(incomplete("Rules", c.Rules)...)
	review.Add(incomplete("Exempt", c.Exempt)...)
	return review.Err()
}

func incomplete(field string, rules []admissionregistrationv1.NamedRuleWithOperations) []error {
	var errs []error
	for i, r := range rules {
		if min(len(r.Operations), len(r.APIGroups), len(r.APIVersions), len(r.Resources)) == 0 {
			errs = append(errs, fmt.Errorf("%s[%d]: must have operations, API groups, API versions and "+
				"resources (got %v)", field, i, r.RuleWithOperations))
		}
	}
	return errs
}
