package leaderforlife

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

const (
	// keptAnnotation names the owner of a lock of [WithObservedPodEnd], as <name>/<uid>.
	keptAnnotation = "leader.bellwether.dev/pod"
	// labelledAnnotation states that the owner of the lock labels its Pod before it leads.
	labelledAnnotation = "leader.bellwether.dev/labelled"
)

// podID identifies a Pod. Other Pods may have its name earlier or later.
type podID struct {
	name string
	uid  types.UID
}

// lock is one version of the lock object. At most one Pod owns it.
type lock struct {
	uid      types.UID
	version  string
	owner    podID
	kept     bool // from the garbage collector: see WithObservedPodEnd
	labelled bool // the owner labels its Pod before it leads
	deleting bool // only finalizers keep it
}

// parseLock parses a lock. The error is an [ErrForeignLock].
func parseLock(kind string, o metav1.Object) (lock, error) {
	l := lock{uid: o.GetUID(), version: o.GetResourceVersion(), deleting: o.GetDeletionTimestamp() != nil}
	l.labelled = o.GetAnnotations()[labelledAnnotation] == "true"
	fail := func(format string, args ...any) (lock, error) {
		return lock{}, fmt.Errorf("%s %s/%s: %w: %s", kind, o.GetNamespace(), o.GetName(), ErrForeignLock,
			fmt.Sprintf(format, args...))
	}
	if _, isLease := o.(*coordinationv1.Lease); isLease && o.GetLabels()[lease.LockLabel] != lease.LockForLife {
		return fail("it has no label %s=%s: it is another program's", lease.LockLabel, lease.LockForLife)
	}
	owners := o.GetOwnerReferences()
	if pod, kept := o.GetAnnotations()[keptAnnotation]; kept && len(owners) == 0 {
		name, uid, _ := strings.Cut(pod, "/")
		if name == "" || uid == "" {
			return fail("annotation %s: must be <name>/<uid> of a Pod (got %q)", keptAnnotation, pod)
		}
		l.owner, l.kept = podID{name, types.UID(uid)}, true
		return l, nil
	}
	if len(owners) == 0 {
		return fail("it has no owner, so nothing tells which Pod leads; if you know that none does, delete it")
	}
	if o := owners[0]; len(owners) > 1 || o.APIVersion != "v1" || o.Kind != "Pod" || o.UID == "" {
		return fail("its owner must be one Pod (got %d owners, the first is %s %s of %s)", len(owners), o.Kind, o.Name,
			o.APIVersion)
	}
	l.owner = podID{owners[0].Name, owners[0].UID}
	return l, nil
}

// lockMeta returns the metadata of the lock that a Pod creates.
func lockMeta(c config, me podID, labelled bool) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: c.namespace, Name: c.lock,
		Labels: map[string]string{lease.LockLabel: lease.LockForLife}, Annotations: map[string]string{},
	}
	if labelled {
		m.Annotations[labelledAnnotation] = "true"
	}
	if c.observedEnd {
		m.Annotations[keptAnnotation] = me.name + "/" + string(me.uid)
	} else {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: me.name, UID: me.uid}}
	}
	return m
}

// locks reads and writes objects of the kind that is used for locks.
type locks interface {
	get(ctx context.Context, name string) (metav1.Object, error)
	create(ctx context.Context, m metav1.ObjectMeta) error
	delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// objects are locks of one type.
type objects[T metav1.Object] struct {
	client interface {
		Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
		Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
		Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
		Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	}
	object func(metav1.ObjectMeta) T
}

func (l objects[T]) get(ctx context.Context, name string) (metav1.Object, error) {
	return l.client.Get(ctx, name, metav1.GetOptions{})
}

func (l objects[T]) create(ctx context.Context, m metav1.ObjectMeta) error {
	_, err := l.client.Create(ctx, l.object(m), metav1.CreateOptions{})
	return err
}

func (l objects[T]) delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return l.client.Delete(ctx, name, o)
}

func (l objects[T]) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return l.client.Watch(ctx, o)
}

func configMapOf(m metav1.ObjectMeta) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: m} }

// leaseOf returns a Lease that electors consider held as long as it exists. client-go's electors take
// a Lease without a duration.
func leaseOf(m metav1.ObjectMeta) *coordinationv1.Lease {
	now := metav1.NewMicroTime(time.Now())
	return &coordinationv1.Lease{ObjectMeta: m, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(holder(m)), LeaseDurationSeconds: ptr.To(int32(math.MaxInt32)),
		AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To(int32(0)),
	}}
}

// holder returns the holder identity, for people and for electors, which must find one.
func holder(m metav1.ObjectMeta) string {
	for _, o := range m.OwnerReferences {
		return o.Name + "/" + string(o.UID)
	}
	return m.Annotations[keptAnnotation]
}
