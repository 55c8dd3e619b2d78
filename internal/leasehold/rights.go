package leasehold

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// sayMissingRights logs all rights that are missing, when the first request is refused.
func (c *Candidate) sayMissingRights(ctx context.Context) {
	ctx, cancel := clock.WithTimeout(own(ctx), c.config.Clock, c.config.Timing.RenewInterval())
	defer cancel()
	lease := c.config.Lease
	rights := kube.RightsOn(leases, lease.Namespace, lease.Name, "create", "get", "update", "watch")
	if c.config.Pod.UID != "" {
		rights = append(rights, kube.RightsOn(corev1.Resource("pods"), lease.Namespace, "", "watch")...)
	}
	if c.config.Events {
		rights = append(rights, kube.EventRights(lease.Namespace)...)
	}
	kube.SayMissingRights(ctx, c.client, rights, c.config.Log)
}
