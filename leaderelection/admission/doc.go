// Package admission lets the API server itself deny the writes of every replica but the leader. An
// admin, or the installation of the controller, applies a ValidatingAdmissionPolicy and its binding
// once, which [Policy] builds; it reads from the Lease which Pod leads:
//
//	policy, binding, err := admission.Policy(admission.PolicyConfig{
//		Namespace: "default", Name: "my-controller",
//		ServiceAccounts: []types.NamespacedName{{Namespace: "default", Name: "my-controller"}},
//	})
//
// Each replica then names its Pod in the Lease:
//
//	identity, err := admission.PodIdentity(ctx, client)
//	...
//	elector, err := leaderelection.New(client, leaderelection.Config{Identity: identity, ...})
//
// It is a separate package because it imports API groups that an elector does not need.
package admission
