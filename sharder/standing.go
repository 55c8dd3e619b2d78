package sharder

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// standing is what one version of a root, an object with a record of its own, says to one shard.
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

// claimant is a shard, in its present life, that looks at the objects of its ring.
type claimant struct {
	names  names
	tenant tenant
}

// standing of a version of a root. The record decides; the label makes visible.
func (c claimant) standing(root metav1.Object) standing {
	if c.names.shardOf(root) != c.tenant.Shard {
		return elsewhere
	}
	r, ok := c.names.recordOf(root)
	switch {
	case !ok, r.Shard != c.tenant.Shard, r.State != owned:
		return stray
	case r.tenant() != c.tenant:
		return outdated
	case c.names.draining(root):
		return drained
	}
	return assigned
}
