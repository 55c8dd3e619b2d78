// Package v1 is the API of the example: a Widget is a custom resource with a colour.
//
// +kubebuilder:object:generate=true
// +groupName=example.bellwether.dev
package v1

//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1 object crd:headerFile= paths=. output:crd:dir=.
