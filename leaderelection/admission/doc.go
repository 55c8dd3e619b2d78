// Package admission makes the API server itself deny writes from every replica but the leader.
// [Policy] builds a ValidatingAdmissionPolicy and its binding, which an admin or an installer applies
// once, as YAML or with a client. The policy covers requests with the service accounts of the
// replicas, and reads from the Lease which Pod leads:
//
//	policy, binding, err := admission.Policy(admission.PolicyConfig{
//		Namespace: "default", Name: "my-controller",
//		ServiceAccounts: []types.NamespacedName{{Namespace: "default", Name: "my-controller"}},
//	})
//
// Each replica uses its Pod as its identity in the election:
//
//	identity, err := admission.PodIdentity(ctx, client)
//	...
//	elector, err := leaderelection.New(client, leaderelection.Config{Identity: identity, ...})
//
// This is a separate package because it imports API groups that an elector does not need.
package admission
