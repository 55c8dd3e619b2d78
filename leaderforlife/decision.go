package leaderforlife

import corev1 "k8s.io/api/core/v1"

// state is what one round of reads has shown. The own Pod was read before the lock, and that before
// the others.
type state struct {
	me    *corev1.Pod
	label string // of the own Pod; empty: none
	lock  *lock  // nil: there is none

	ownerOver bool      // the lock's owner, another Pod, is proven to have ended
	waiting   []Waiting // for other Pods that are not
}

// abilities are what a candidate has found to be refused.
type abilities struct {
	noPatch  bool // of the own Pod
	noDelete bool // of the lock
}

// step is what to do next.
type step int

const (
	toWait    step = iota
	toLead         // Become returns
	toCreate       // the lock
	toLabel        // the own Pod
	toUnlabel      // the own Pod
	toRemove       // the lock
)

// next decides. Nobody leads beside another, because each has labelled its Pod before it lists the
// Pods with the label: of two, the one whose label came later has found that of the other. The lock
// says who may try.
func (v state) next(a abilities) (step, []Waiting) {
	if v.me.DeletionTimestamp != nil || terminal(v.me) {
		return toWait, []Waiting{{Pod: v.me.Name, UID: v.me.UID, Node: v.me.Spec.NodeName, Why: "this Pod is ending, and does not begin to lead"}}
	}
	mine := v.lock != nil && v.lock.owner.uid == v.me.UID
	switch {
	case mine && v.label != string(v.lock.uid) && !a.noPatch:
		return toLabel, nil
	case mine && v.label != string(v.lock.uid) && v.lock.labelled && !v.lock.deleting && !a.noDelete:
		return toRemove, nil // and make one that does not say that the owner is labelled
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
		return toWait, []Waiting{{Pod: v.lock.owner.name, UID: v.lock.owner.uid, Why: "it has ended, but its lock is still there"}}
	default:
		return toWait, v.waiting
	}
}
