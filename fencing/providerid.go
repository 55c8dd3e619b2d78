package fencing

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// vouched reports whether a controller has recorded that a node had its provider ID before any
// other node. The record is a label that a kubelet may not write, because a Node's claims about
// itself are in doubt.
func vouched(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && n.Labels[v1alpha1.LabelProvider] == providerHash(n)
}

// providerHash returns the provider ID as a label value.
func providerHash(n *corev1.Node) string {
	const digits = 40
	sum := sha256.Sum256([]byte(n.Spec.ProviderID))
	return hex.EncodeToString(sum[:])[:digits]
}
