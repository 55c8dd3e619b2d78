package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// WeighRights returns the rights to give a shard another weight.
func WeighRights(namespace string) []Right {
	leases := coordinationv1.Resource("leases")
	return kube.RightsOn(leases, namespace, "", "get", "list", "patch")
}

// ShardLease reads the Lease of a shard.
func (c *Cluster) ShardLease(ctx context.Context, namespace, shard string) (*coordinationv1.Lease, error) {
	l, err := c.Kube.CoordinationV1().Leases(namespace).Get(ctx, shard, metav1.GetOptions{})
	if err = kube.Named(l, shard, err); err != nil {
		return nil, fmt.Errorf("kubectl-bellwether: get Lease %s/%s: %w", namespace, shard, err)
	}
	if l.Labels[shardlease.RingLabel] == "" {
		return nil, fmt.Errorf("kubectl-bellwether: Lease %s/%s is not that of a shard: it has no label %s", namespace,
			shard, shardlease.RingLabel)
	}
	return l, nil
}

// Weigh gives the shard of this Lease a weight, or with nil its own. A Lease that was replaced since it
// was read is left alone.
func (c *Cluster) Weigh(ctx context.Context, l *coordinationv1.Lease, weight *int) error {
	var value any
	if weight != nil {
		value = strconv.Itoa(*weight)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": l.UID, "annotations": map[string]any{shardlease.WeightAnnotation: value},
	}})
	if err == nil {
		_, err = c.Kube.CoordinationV1().Leases(l.Namespace).Patch(ctx, l.Name, types.MergePatchType, patch,
			metav1.PatchOptions{FieldManager: "kubectl-bellwether"})
	}
	if err != nil {
		return fmt.Errorf("kubectl-bellwether: patch Lease %s/%s: %w", l.Namespace, l.Name, err)
	}
	return nil
}
