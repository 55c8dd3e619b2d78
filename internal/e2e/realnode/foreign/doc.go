// Package foreign tests deploy/any-controller with operators that others have published, as they are, on nodes
// with a real kubelet.
package foreign
