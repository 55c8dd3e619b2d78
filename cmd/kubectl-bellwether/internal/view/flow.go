package view

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// Flow is whether the API server separates requests about the Leases of a namespace from the other
// requests of its service accounts. If it does not, a program's own requests may end its terms.
type Flow struct {
	Namespace string `json:"namespace"`
	// FlowSchema names the FlowSchema that separates them, if any.
	FlowSchema string `json:"flowSchema"`
}

// FlowOf returns the flow of a namespace. It assumes that programs that contend in it also run in it.
// A FlowSchema counts if it names leases, for one of the namespace's service accounts or for all.
func FlowOf(namespace string, schemas []flowcontrolv1.FlowSchema) Flow {
	here := func(s flowcontrolv1.Subject) bool { return runsIn(s, namespace) }
	renewals := func(r flowcontrolv1.ResourcePolicyRule) bool { return renews(r, namespace) }
	for _, s := range schemas {
		if slices.ContainsFunc(s.Spec.Rules, func(r flowcontrolv1.PolicyRulesWithSubjects) bool {
			return slices.ContainsFunc(r.Subjects, here) && slices.ContainsFunc(r.ResourceRules, renewals)
		}) {
			return Flow{namespace, s.Name}
		}
	}
	return Flow{Namespace: namespace}
}

// runsIn reports whether a subject is a service account of a namespace, or a group of those.
func runsIn(s flowcontrolv1.Subject, namespace string) bool {
	switch {
	case s.ServiceAccount != nil:
		return s.ServiceAccount.Namespace == namespace
	case s.Group != nil:
		return s.Group.Name == "system:serviceaccounts" || s.Group.Name == "system:serviceaccounts:"+namespace
	}
	return false
}

// renews reports whether a rule is about renewals in a namespace, and not about all resources.
func renews(r flowcontrolv1.ResourcePolicyRule, namespace string) bool {
	either := func(of []string, wanted, all string) bool {
		return slices.Contains(of, wanted) || slices.Contains(of, all)
	}
	return slices.Contains(r.APIGroups, coordinationv1.GroupName) && slices.Contains(r.Resources, "leases") &&
		either(r.Verbs, "update", flowcontrolv1.VerbAll) &&
		either(r.Namespaces, namespace, flowcontrolv1.NamespaceEvery)
}
