package sharder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// standing is what one version of a root says to one shard.
type standing int

const (
	// elsewhere is a root that the shard has nothing to do with.
	elsewhere standing = iota
	// assigned to the shard in this epoch: it may work.
	assigned
	// drained is an assigned root that the sharder wants back.
	drained
	// outdated roots are assigned to the shard in another epoch. The sharder, which sees every change of an epoch, assigns them
	// anew.
	outdated
	// stray roots carry the shard's label, and their record does not say why. The sharder does not see them.
	stray
)

// claimant is a shard in one epoch.
type claimant struct {
	names names
	shard string
	epoch shardlease.Epoch
}

// standing of a version of a root. The record decides; the label makes visible.
func (c claimant) standing(root metav1.Object) standing {
	if c.names.shardOf(root) != c.shard {
		return elsewhere
	}
	r, ok := c.names.recordOf(root)
	switch {
	case !ok, r.Shard != c.shard, r.State != owned:
		return stray
	case r.LeaseUID != c.epoch.LeaseUID, r.Epoch != c.epoch.Number:
		return outdated
	case c.names.draining(root):
		return drained
	}
	return assigned
}
