// Package v1alpha1 is the API of node fencing. A NodeFence is the record of a node's fence.
//
// A NodeFence is cluster-scoped. Each node has at most one: its name is derived from the name of
// the node (see Name), so that creating it starts a fence, and a second request finds the first.
// The status has everything that the controller knows, and is written by one update at a time. The
// next controller reads from it how far the fence is, which command may still be under way, and
// what is proved.
//
// Admins control a fence with annotations; see AnnotationStop and the following constants.
//
// CRD is the manifest for `kubectl apply` or a client of the API extensions.
//
// +kubebuilder:object:generate=true
// +groupName=fencing.bellwether.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1 object crd:headerFile= paths=. output:crd:dir=.
