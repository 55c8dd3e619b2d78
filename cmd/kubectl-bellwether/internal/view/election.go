package view

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// Election is an election, or a lock of a leader for life.
type Election struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Kind is Lease or ConfigMap.
	Kind  string `json:"kind"`
	State string `json:"state"`
	// Holder is empty if there is no leader.
	Holder string `json:"holder,omitempty"`
	// Address is where the leader claims to be reachable.
	Address     string    `json:"address,omitempty"`
	Transitions int32     `json:"transitions"`
	Acquired    time.Time `json:"acquired,omitzero"`
	Renewed     time.Time `json:"renewed,omitzero"`
	Duration    int32     `json:"leaseDurationSeconds,omitempty"`
}

// States of an election.
const (
	Held     = "Held"     // the leader has renewed the Lease in time
	Expired  = "Expired"  // the leader has not
	Released = "Released" // the last leader has ended its work and has no successor
	Vacant   = "Vacant"   // no holder and no mark of a release, so candidates wait
	ForLife  = "ForLife"  // held until the leader's Pod has ended
)

// ElectionOf returns the election of a Lease; ok is false if the Lease belongs to no election or to
// one of another program.
func ElectionOf(l *coordinationv1.Lease, now time.Time) (_ Election, ok bool) {
	r := lease.RecordOf(l)
	_, shard := l.Labels[shardlease.RingLabel]
	_, instance := l.Labels[serviceLabel]
	_, term := l.Annotations[lease.TermAnnotation]
	_, released := l.Annotations[lease.ReleasedAnnotation]
	if shard || instance || !term && !released && !r.ForLife() {
		return Election{}, false
	}
	e := Election{
		Namespace: l.Namespace, Name: l.Name, Kind: "Lease", Holder: r.Holder(), Transitions: r.Transitions(),
		Address: r.Address(),
	}
	if t := l.Spec.AcquireTime; t != nil && e.Holder != "" {
		e.Acquired = t.Time
	}
	if t := l.Spec.RenewTime; t != nil {
		e.Renewed = t.Time
	}
	switch {
	case r.ForLife():
		e.State, e.Renewed = ForLife, time.Time{}
		return e, true
	case e.Holder == "" && r.Released():
		e.State = Released
	case e.Holder == "":
		e.State = Vacant
	case age(e.Renewed, now) < r.Duration():
		e.State = Held
	default:
		e.State = Expired
	}
	e.Duration = ptr.Deref(l.Spec.LeaseDurationSeconds, 0)
	return e, true
}

// LockSelector selects the locks of leaders for life.
const LockSelector = lease.LockLabel + "=" + lease.LockForLife

// LockOf returns the lock of a leader for life that is a ConfigMap.
func LockOf(m *corev1.ConfigMap) Election {
	e := Election{
		Namespace: m.Namespace, Name: m.Name, Kind: "ConfigMap", State: ForLife, Acquired: m.CreationTimestamp.Time,
	}
	switch pod, _, kept := strings.Cut(m.Annotations[keptAnnotation], "/"); {
	case kept:
		e.Holder = pod
	case len(m.OwnerReferences) > 0:
		e.Holder = m.OwnerReferences[0].Name
	default:
		e.State = Vacant
	}
	return e
}

// keptAnnotation is that of package leaderforlife: <name>/<uid> of the Pod that has the lock.
const keptAnnotation = "leader.bellwether.dev/pod"
