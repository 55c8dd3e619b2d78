package shardstate

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Takeover is the write with which a sharder takes over the lease of a shard. It is valid for one
// version of the lease.
type Takeover struct {
	lease  *coordinationv1.Lease
	create bool
}

// Takeover returns the write that takes over a shard's lease. ok is false unless the shard is
// [Uncertain], or an epoch of it is [EpochNeedsTakeover], or its lease has been [Malformed] and
// unchanged for 2D. The epoch stays as it is. The write sets the duration to the D of the shard,
// after which the shard may acquire its lease again, in the next epoch.
func (r *Tracker) Takeover(shard string, now Reading) (a Takeover, ok bool) {
	s := r.shards[shard]
	if s == nil || !s.acquirable(now) {
		return Takeover{}, false
	}
	name := types.NamespacedName{Namespace: r.config.Namespace, Name: shard}
	l := lease.RecordOf(s.lease).Acquired(name, shardlease.Sharder, s.patience, new(lease.Stamps).Next(now.Wall))
	metav1.SetMetaDataLabel(&l.ObjectMeta, shardlease.RingLabel, r.config.Ring)
	delete(l.Annotations, shardrecord.IncarnationAnnotation)
	delete(l.Annotations, shardrecord.ReturnAnnotation)
	delete(l.Annotations, shardrecord.LeavingAnnotation)
	if s.lease == nil {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, shardrecord.EpochAnnotation, "0")
	}
	shardrecord.MarkCrash(l, nil, false)
	return Takeover{l, s.lease == nil}, true
}

// Lease returns the object that will be written. It must not be changed.
func (a Takeover) Lease() *coordinationv1.Lease { return a.lease }

// TakeOver sends a takeover and returns the stored lease, to be passed to [Tracker.Observe]. It
// succeeds at most once for each version. After any error, read the lease ([Tracker.ObserveRead] or
// Observe) before the next takeover, because the shard may have come back, another sharder may have
// been faster, or this write may have succeeded and its answer been lost.
func TakeOver(ctx context.Context, client kubernetes.Interface, a Takeover) (*coordinationv1.Lease, error) {
	leases, verb := client.CoordinationV1().Leases(a.lease.Namespace), "update"
	var l *coordinationv1.Lease
	var err error
	if a.create {
		verb = "create"
		l, err = leases.Create(ctx, a.lease, metav1.CreateOptions{})
	} else {
		l, err = leases.Update(ctx, a.lease, metav1.UpdateOptions{})
	}
	if err = kube.Named(l, a.lease.Name, err); err != nil {
		return nil, leasehold.RequestError(verb,
			types.NamespacedName{Namespace: a.lease.Namespace, Name: a.lease.Name}, err)
	}
	return l, nil
}

// Deletion deletes one version of the lease of a dead shard.
type Deletion struct {
	lease types.NamespacedName
	uid   types.UID
	rv    string
}

// Deletion returns the deletion of the lease of an [Orphaned] shard; ok is false if it must not be
// deleted. Send it after a consistent list, begun after this call, that has no object with the
// shard's label.
func (r *Tracker) Deletion(shard string, now Reading) (c Deletion, ok bool) {
	if r.State(shard, now) != Orphaned {
		return Deletion{}, false
	}
	l := r.shards[shard].lease
	return Deletion{types.NamespacedName{Namespace: r.config.Namespace, Name: shard}, l.UID, l.ResourceVersion}, true
}

// Delete sends a deletion. If the lease has changed in any way since, Delete returns an error and
// deletes nothing.
func Delete(ctx context.Context, client kubernetes.Interface, c Deletion) error {
	err := client.CoordinationV1().Leases(c.lease.Namespace).Delete(ctx, c.lease.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.uid, ResourceVersion: &c.rv}})
	if err != nil {
		return leasehold.RequestError("delete", c.lease, err)
	}
	return nil
}
