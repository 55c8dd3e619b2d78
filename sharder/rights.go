package sharder

import (
	"context"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// rights are those that a replica needs for the ring. The sharder needs all that its shard needs.
func (c Config) rights() []kube.Right {
	all := kube.RightsOn(coordinationv1.Resource("leases"), c.Namespace, "",
		"get", "list", "watch", "create", "update", "delete")
	all = append(all, kube.RightsOn(corev1.Resource("configmaps"), c.Namespace, HistoryName(c.Ring),
		"create", "get", "update")...)
	for _, r := range c.Resources {
		namespaces := r.Namespaces
		if len(namespaces) == 0 {
			namespaces = []string{""}
		}
		for _, namespace := range namespaces {
			for _, of := range append([]schema.GroupVersionResource{r.GVR}, r.Children...) {
				all = append(all, kube.RightsOn(of.GroupResource(), namespace, "", "get", "list", "watch", "patch")...)
			}
			if c.Events != nil {
				all = append(all, kube.EventRights(namespace)...)
			}
		}
	}
	return all
}

// LogMissingRights returns a context for parts of a program that run until end is called. When the
// API server refuses a request of one of them, such as a lease, all rights that these parts and the
// sharder lack are logged in one line.
func (s *Sharder) LogMissingRights(ctx context.Context) (reviewed context.Context, end func()) {
	if role := kube.RoleOf(ctx); role != nil {
		role.Needs(s.kube, s.config.rights)
		return ctx, func() {}
	}
	role := kube.NewRole(s.config.Logger)
	role.Needs(s.kube, s.config.rights)
	return role.Begin(ctx)
}

// warning returns the level of a line about a failed request. Missing rights that are logged
// already are not logged again for each object and each attempt.
func warning(ctx context.Context, err error) zapcore.Level {
	if kube.RoleOf(ctx).Refused(err) {
		return zap.DebugLevel
	}
	return zap.WarnLevel
}
