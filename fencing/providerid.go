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

// vouched says whether a controller has written down that a node has come to its provider ID before
// any other. It is in a label that a kubelet may not write, as what a Node says of itself is what
// is in doubt.
func vouched(n *corev1.Node) bool {
	return n.Spec.ProviderID != "" && n.Labels[v1alpha1.LabelProvider] == providerHash(n)
}

// providerHash is a provider ID as a label may have it.
func providerHash(n *corev1.Node) string {
	const digits = 40
	sum := sha256.Sum256([]byte(n.Spec.ProviderID))
	return hex.EncodeToString(sum[:])[:digits]
}

// vouch writes down that a node has come to its provider ID before any other: the one that works,
// whose devices read on, and whose claim is not disputed. A leader that comes when there are two
// knows it from that. A provider ID that is there is never changed: the API server sees to that.
func (c *checks) vouch(ctx context.Context, n *corev1.Node, plan nodeconfig.Plan, found map[string]reading) error {
	claimed := plan.Claimed() // of a configuration with an error there is no plan
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
