package shardlease

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// Acquisition is the write by which a sharder takes the lease of a shard. It is good for one version of the lease.
type Acquisition struct {
	lease  *coordinationv1.Lease
	create bool
}

// Acquisition returns the write by which the sharder takes the lease of a shard that is [Uncertain] or whose epoch is [Unproven], and of one
// that has been [Malformed] and unchanged for 2D; ok is false if it must not be taken. The epoch stays as it is. The duration that it
// writes is the D of the shard: after that the shard may acquire its lease again, in the next epoch.
func (r *Roster) Acquisition(shard string, now Reading) (a Acquisition, ok bool) {
	s := r.shards[shard]
	if s == nil || !s.acquirable(now) {
		return Acquisition{}, false
	}
	name := types.NamespacedName{Namespace: r.config.Namespace, Name: shard}
	l := lease.RecordOf(s.lease).Acquired(name, Sharder, s.patience, new(lease.Stamps).Next(now.Wall))
	metav1.SetMetaDataLabel(&l.ObjectMeta, RingLabel, r.config.Ring)
	delete(l.Annotations, IncarnationAnnotation)
	delete(l.Annotations, ReturnAnnotation)
	delete(l.Annotations, LeavingAnnotation)
	if s.lease == nil {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, EpochAnnotation, "0")
	}
	return Acquisition{l, s.lease == nil}, true
}

// Lease is what will be written. It must not be changed.
func (a Acquisition) Lease() *coordinationv1.Lease { return a.lease }

// Acquire sends an acquisition, and returns the lease as it is then: give it to [Roster.See]. It succeeds at most once for each version. After
// any error the lease has to be read ([Roster.Read], or See) before it is asked for another acquisition: the shard may have come
// back, another sharder may have been faster, or this write may have succeeded and its answer been lost.
func Acquire(ctx context.Context, client kubernetes.Interface, a Acquisition) (*coordinationv1.Lease, error) {
	leases, verb := client.CoordinationV1().Leases(a.lease.Namespace), "update"
	var l *coordinationv1.Lease
	var err error
	if a.create {
		verb = "create"
		l, err = leases.Create(ctx, a.lease, metav1.CreateOptions{})
	} else {
		l, err = leases.Update(ctx, a.lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, &lease.AccessError{Verb: verb, Lease: types.NamespacedName{Namespace: a.lease.Namespace, Name: a.lease.Name}, Err: err}
	}
	return l, nil
}

// Collection is the deletion of one version of a dead shard's lease.
type Collection struct {
	lease types.NamespacedName
	uid   types.UID
	rv    string
}

// Collection returns the deletion of the lease of an [Orphaned] shard; ok is false if it must not be deleted. It may be sent once a
// consistent list that was begun after this call finds no object with the shard's label.
func (r *Roster) Collection(shard string, now Reading) (c Collection, ok bool) {
	if r.State(shard, now) != Orphaned {
		return Collection{}, false
	}
	l := r.shards[shard].lease
	return Collection{types.NamespacedName{Namespace: r.config.Namespace, Name: shard}, l.UID, l.ResourceVersion}, true
}

// Collect sends a collection. It never deletes a lease that was acquired, or changed at all, in the meantime: that is an error.
func Collect(ctx context.Context, client kubernetes.Interface, c Collection) error {
	err := client.CoordinationV1().Leases(c.lease.Namespace).Delete(ctx, c.lease.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &c.uid, ResourceVersion: &c.rv}})
	if err != nil {
		return &lease.AccessError{Verb: "delete", Lease: c.lease, Err: err}
	}
	return nil
}
