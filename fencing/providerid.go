package fencing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
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

// vouch records that a node had its provider ID before any other node: a working node whose devices
// read on and whose claim is undisputed. If a second node claims it later, the next leader can tell
// which was first. The API server ensures that a provider ID never changes.
func (c *checks) vouch(ctx context.Context, n *corev1.Node, plan nodeconfig.Plan, found map[string]reading) error {
	claimed := plan.Claimed() // a configuration with an error has no plan
	if len(claimed) == 0 || !ready(n) {
		return nil
	}
	if n.Spec.ProviderID == "" || n.Labels[v1alpha1.LabelProvider] != "" {
		return nil
	}
	for _, d := range claimed {
		if !found[d.Key].on {
			return nil
		}
	}
	node, err := cluster.New(c.kube, cluster.Config{Name: n.Name, UID: n.UID, Incident: 1})
	if err != nil {
		return err
	}
	return node.Label(ctx, c.requireLeader, v1alpha1.LabelProvider, providerHash(n))
}
