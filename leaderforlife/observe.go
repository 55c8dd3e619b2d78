package leaderforlife

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// observe reads everything that a decision needs, in the order that [state.next] relies on.
func (c *candidate) observe(ctx context.Context) (state, error) {
	me, err := c.cluster.pod(ctx, c.me.name)
	if err != nil {
		return state{}, err
	}
	if me == nil || me.UID != c.me.uid {
		return state{}, fmt.Errorf("%w: Pod %s/%s with UID %s", ErrPodGone, c.config.namespace, c.me.name, c.me.uid)
	}
	v := state{me: me, label: me.Labels[c.cluster.label]}
	if v.lock, err = c.cluster.lock(ctx); err != nil {
		return state{}, err
	}
	labelled, listed, err := c.cluster.labelled(ctx)
	if err != nil {
		return state{}, err
	}
	c.seen = v.lock
	c.collectContenders(v.lock, labelled, listed)
	for _, s := range c.others {
		if err := c.inspect(ctx, s); err != nil {
			return state{}, err
		}
	}
	v.ownerOver, v.waiting = c.checkContenders()
	return v, nil
}

// collectContenders collects the other Pods that may lead, and keeps what is known of them.
func (c *candidate) collectContenders(l *lock, labelled []corev1.Pod, listed bool) {
	before := c.others
	c.others = map[types.UID]*contender{}
	add := func(id podID) *contender {
		s := before[id.uid]
		if s == nil {
			s = &contender{podID: id}
		}
		s.gone, s.kept = true, false // until it is found
		c.others[id.uid] = s
		return s
	}
	if l != nil && l.owner.uid != c.me.uid {
		if !l.labelled || !listed {
			c.owners[l.owner.uid] = l.owner
		}
		add(l.owner)
	}
	for _, owner := range c.owners {
		add(owner)
	}
	for _, pod := range labelled {
		if pod.UID != c.me.uid {
			add(podID{pod.Name, pod.UID}).observe(&pod)
		}
	}
	if l != nil && l.kept && c.others[l.owner.uid] != nil {
		c.others[l.owner.uid].kept = true
	}
}

// observe records a version of the Pod.
func (s *contender) observe(pod *corev1.Pod) {
	s.gone, s.seen = false, pod
	if grace := pod.DeletionGracePeriodSeconds; grace != nil && *grace > 0 {
		// the last event of a deleted Pod also has 0
		s.ending = true
	}
}

// inspect reads what is not known of a contender.
func (c *candidate) inspect(ctx context.Context, s *contender) error {
	if s.gone {
		pod, err := c.cluster.pod(ctx, s.name)
		if err != nil {
			return err
		}
		if pod != nil && pod.UID == s.uid {
			s.observe(pod)
		}
	}
	if over, _ := hasEnded(*s, nodeState{}); over || s.seen == nil {
		return nil
	}
	if c.config.nodes && s.node() != "" {
		state, err := c.cluster.node(ctx, s.node())
		if err != nil {
			return err
		}
		c.nodes[s.node()] = state
	}
	if c.config.fence != nil && !c.nodes[s.node()].down() {
		pod, fenced := s.seen.DeepCopy(), false
		err := c.fence.Ask(ctx, clock.System(), requestTimeout, func(ctx context.Context) (err error) {
			fenced, err = c.config.fence.Ended(ctx, pod)
			return err
		})
		c.failures.Note("fence "+s.name, err, "the Fence failed for Pod "+s.name, "")
		s.fenced = err == nil && fenced // in this order: an abandoned call may still write fenced
	}
	return nil
}

// checkContenders returns whether the lock's owner has ended, and which contenders have not. It
// forgets earlier owners that have ended.
func (c *candidate) checkContenders() (ownerOver bool, waiting []Waiting) {
	for _, s := range c.others {
		owner := c.seen != nil && c.seen.owner.uid == s.uid
		over, why := hasEnded(*s, c.nodes[s.node()])
		if over {
			ownerOver = ownerOver || owner
			delete(c.owners, s.uid)
			if s.gone && s.seen != nil && !s.ending && !ended(s.seen) {
				c.cluster.sayOnce(fmt.Sprintf("Pod %s with UID %s was deleted while it ran, at once or by force: "+
					"assuming that it has ended", s.name, s.uid))
			}
			continue
		}
		waiting = append(waiting, Waiting{Pod: s.name, UID: s.uid, Node: s.node(), Why: why})
	}
	slices.SortFunc(waiting, func(a, b Waiting) int { return cmp.Compare(a.UID, b.UID) })
	return ownerOver, waiting
}

// isUUID reports whether a UID has the format of an API server's.
func isUUID(uid types.UID) bool {
	if len(uid) != 36 {
		return false
	}
	for i, r := range string(uid) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		digit := r >= '0' && r <= '9' || r >= 'a' && r <= 'f' || r >= 'A' && r <= 'F'
		if dash != (r == '-') || !dash && !digit {
			return false
		}
	}
	return true
}
