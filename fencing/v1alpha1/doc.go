// Package v1alpha1 is the API of node fencing: NodeFence, the record of one node's fence.
//
// A NodeFence is cluster-scoped, and there is at most one for a node: its name follows from the node's (see Name), so
// that creating it is what starts a fence, and a second request finds the first. Everything that the fencing controller
// knows lives in its status, written by one update of the status subresource at a time, so that a controller that comes
// after a crash reads where the last one was, which command may still be on its way, and what was proved.
//
// Admins speak to a fence by annotations, see AnnotationStop and those beside it.
//
// CRD is the manifest that `kubectl apply` or the API extensions client installs.
//
// +kubebuilder:object:generate=true
// +groupName=fencing.bellwether.dev
package v1alpha1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1 object crd:headerFile= paths=. output:crd:dir=.
