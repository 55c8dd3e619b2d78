package leasehold

import (
	"context"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// sayMissingRights logs all rights that are missing, when the first request is refused. A role would
// otherwise be mended one verb at a time.
func (c *Candidate) sayMissingRights(ctx context.Context) {
	ctx, cancel := clock.WithTimeout(own(ctx), c.config.Clock, c.config.Timing.RenewInterval())
	defer cancel()
	var rights []kube.Right
	for _, verb := range []string{"create", "get", "update", "watch"} {
		name := c.config.Lease.Name
		if verb == "create" { // cannot be restricted to a name
			name = ""
		}
		rights = append(rights,
			kube.Right{Verb: verb, Resource: leases, Namespace: c.config.Lease.Namespace, Name: name})
	}
	if c.config.Pod.UID != "" {
		rights = append(rights,
			kube.Right{Verb: "watch", Resource: corev1.Resource("pods"), Namespace: c.config.Lease.Namespace})
	}
	missing, err := kube.MissingRights(ctx, c.client, rights)
	switch {
	case err != nil:
		c.config.Log.Debug("cannot ask which rights are missing", zap.Error(err))
	case len(missing) > 0:
		c.config.Log.Warn("rights are missing: grant all of them", zap.String("grant", kube.Grants(missing)))
	}
}
