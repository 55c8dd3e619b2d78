// Package incident has the part of a NodeFence's status that only the controller reads: the
// commands, waits and devices of the current incident. It is stored with the rest of the status, so
// that its field names and values must not change.
//
// +kubebuilder:object:generate=true
package incident

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1 object paths=.
