package view

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// Shard is a shard of a ring, as its Lease shows it, with its objects.
type Shard struct {
	Name  string `json:"name"`
	State string `json:"state"` // of package shardstate
	// Problem is why the Lease is Malformed.
	Problem string `json:"problem,omitempty"`
	// Leaving means that the shard was asked to stop but has not released its Lease yet.
	Leaving bool `json:"leaving,omitempty"`
	// Weight is how many objects it gets, compared with others. OwnWeight is that of its configuration, if
	// an administrator has given it another one.
	Weight    int  `json:"weight"`
	OwnWeight *int `json:"ownWeight,omitempty"`
	// WeightProblem is why the administrator's is ignored.
	WeightProblem string `json:"weightProblem,omitempty"`
	// Share is the part of all objects that it gets by the weights of the members.
	Share float64 `json:"share"`
	// Version is that of its program.
	Version string `json:"version,omitempty"`
	// Idle means that nothing in the shard's process works on objects, so it gets none.
	Idle bool `json:"idle,omitempty"`
	// Pod has claimed the name of the shard, and is empty if the name was not claimed.
	Pod      string `json:"pod,omitempty"`
	Epoch    int64  `json:"epoch"`
	LeaseUID string `json:"leaseUID"`
	// Renewed is the time of the last write of the Lease's holder, by its clock.
	Renewed  time.Time `json:"renewed,omitzero"`
	Duration int32     `json:"leaseDurationSeconds"`

	Objects  int `json:"objects"`  // whose record names it
	Children int `json:"children"` // that carry its label
	Draining int `json:"draining"` // of the objects

	state shardstate.State
}

// ShardOf returns the shard of a Lease of a ring.
func ShardOf(ring string, l *coordinationv1.Lease, now time.Time) (Shard, error) {
	s := Shard{
		Name: l.Name, LeaseUID: string(l.UID), Pod: l.Annotations[shardrecord.PodAnnotation],
		Duration: ptr.Deref(l.Spec.LeaseDurationSeconds, 0), Idle: shardlease.Idle(l),
		Version: l.Annotations[shardrecord.VersionAnnotation],
	}
	weight, problem := shardlease.WeightOf(l)
	s.Weight = weight
	if problem != nil {
		s.WeightProblem = problem.Error()
	} else if _, given := l.Annotations[shardlease.WeightAnnotation]; given {
		bare := l.DeepCopy()
		delete(bare.Annotations, shardlease.WeightAnnotation)
		own, _ := shardlease.WeightOf(bare) // without that annotation, there is no error
		s.OwnWeight = &own
	}
	_, s.Leaving = l.Annotations[shardrecord.LeavingAnnotation]
	if e, err := shardlease.EpochOf(l); err == nil {
		s.Epoch = e.Number
	}
	if l.Spec.RenewTime != nil {
		s.Renewed = l.Spec.RenewTime.Time
	}
	tracker, err := shardstate.NewTracker(shardstate.Config{Namespace: l.Namespace, Ring: ring})
	if err != nil {
		return Shard{}, err
	}
	// As if this process had received the Lease when it was written.
	tracker.List([]*coordinationv1.Lease{l}, shardstate.Reading{Monotonic: -age(s.Renewed, now)})
	s.state = tracker.State(l.Name, shardstate.Reading{})
	s.State = s.state.String()
	if problem := tracker.Problem(l.Name); problem != nil {
		s.Problem = problem.Error()
	}
	return s, nil
}

// age is the time since then; zero for a time in the future, as when clocks differ.
func age(then, now time.Time) time.Duration { return max(0, now.Sub(then)) }

// lives reports whether its objects stay with the shard, because it works on them or may come back.
func (s Shard) lives() bool {
	return s.state == shardstate.Ready || s.state == shardstate.Expired || s.state == shardstate.Away
}

// MayWork reports whether a process of the shard may be at work.
func (s Shard) MayWork() bool { return s.state == shardstate.Ready || s.state == shardstate.Expired }

// Ended reports whether the shard's Lease shows that it has ended.
func (s Shard) Ended() bool {
	return s.state == shardstate.Dead || s.state == shardstate.Orphaned || s.state == shardstate.Away
}
