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
	standing, _ := c.claim(root)
	return standing
}

// claim returns the standing of a version of a root, and its record if there is one.
func (c claimant) claim(root metav1.Object) (standing, record) {
	if c.names.shardOf(root) != c.tenant.Shard {
		return elsewhere, record{}
	}
	// At nearly every event of nearly every root this is its record, and comparing takes less than half as long as parsing.
	r := record{UID: root.GetUID(), Shard: c.tenant.Shard, LeaseUID: c.tenant.LeaseUID, Epoch: c.tenant.Epoch, State: owned}
	ok := c.names.carries(root, r.encode())
	if !ok {
		r, ok = c.names.recordOf(root)
	}
	switch {
	case !ok, r.Shard != c.tenant.Shard, r.State != owned:
		return stray, r
	case r.tenant() != c.tenant:
		return outdated, r
	case c.names.draining(root):
		return drained, r
	}
	return assigned, r
}
