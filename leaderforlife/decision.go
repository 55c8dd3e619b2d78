package leaderforlife

import corev1 "k8s.io/api/core/v1"

// state is the result of one round of reads: first our Pod, then the lock, then the others.
type state struct {
	me    *corev1.Pod
	label string // of our Pod, or empty
	lock  *lock  // nil if it does not exist

	ownerOver bool      // another Pod owns the lock, and is proven to have ended
	waiting   []Waiting // for other Pods that are not proven to have ended
}

// abilities are the optional verbs that were refused.
type abilities struct {
	noPatch  bool // of our Pod
	noDelete bool // of the lock
}

// step is the next action.
type step int

const (
	toWait    step = iota
	toLead         // Become returns
	toCreate       // the lock
	toLabel        // our Pod
	toUnlabel      // our Pod
	toRemove       // the lock
)

// next decides. Two Pods cannot both lead, because each labels itself before it lists the labelled
// Pods, so the one whose label came later has found the other. The lock decides who may try.
func (v state) next(a abilities) (step, []Waiting) {
	if v.me.DeletionTimestamp != nil || terminal(v.me) {
		return toWait, []Waiting{{
			Pod: v.me.Name, UID: v.me.UID, Node: v.me.Spec.NodeName,
			Why: "this Pod is ending, and does not begin to lead",
		}}
	}
	mine := v.lock != nil && v.lock.owner.uid == v.me.UID
	switch {
	case mine && v.label != string(v.lock.uid) && !a.noPatch:
		return toLabel, nil
	case mine && v.label != string(v.lock.uid) && v.lock.labelled && !v.lock.deleting && !a.noDelete:
		return toRemove, nil // to create a lock that does not claim that its owner is labelled
	case mine && len(v.waiting) > 0:
		return toWait, v.waiting
	case mine:
		return toLead, nil
	case v.label != "" && !a.noPatch: // this Pod does not lead: the process that did has ended
		return toUnlabel, nil
	case v.lock == nil && len(v.waiting) > 0:
		return toWait, v.waiting
	case v.lock == nil:
		return toCreate, nil
	case v.ownerOver && !v.lock.deleting && !a.noDelete:
		return toRemove, nil
	case v.ownerOver:
		return toWait, []Waiting{{
			Pod: v.lock.owner.name, UID: v.lock.owner.uid,
			Why: "it has ended, but its lock is still there",
		}}
	default:
		return toWait, v.waiting
	}
}
