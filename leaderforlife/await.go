package leaderforlife

import (
	"context"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// await returns when there may be something new to read. It sends no request while it can watch
// everything that it waits for.
func (c *candidate) await(ctx context.Context, v state, waiting []Waiting) error {
	abilities := c.abilities
	c.noDelete = false // retry the deletion after a poll interval
	fresh, all := c.watches.want(ctx, c.objects(waiting))
	if fresh {
		return nil
	}
	var poll <-chan time.Time
	if !all || c.config.fence != nil || abilities.noDelete {
		timer := time.NewTimer(c.config.pollInterval*9/10 + rand.N(c.config.pollInterval/5))
		defer timer.Stop()
		poll = timer.C
	}
	for {
		select {
		case n := <-c.watches.events:
			if c.handleEvent(ctx, n) {
				return nil
			}
			v.ownerOver, v.waiting = c.checkContenders()
			next, waiting := v.next(abilities)
			if next != toWait {
				return nil
			}
			c.reportWaiting(waiting)
		case <-poll:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// objects returns the objects whose changes may matter.
func (c *candidate) objects(waiting []Waiting) map[watchable]bool {
	objects := map[watchable]bool{{c.kind, c.config.lock}: true}
	for _, w := range waiting {
		objects[watchable{"pods", w.Pod}] = true
		if c.config.nodes && w.Node != "" {
			objects[watchable{"nodes", w.Node}] = true
		}
	}
	return objects
}

// handleEvent records an event and reports whether it requires a new round.
func (c *candidate) handleEvent(ctx context.Context, n watchEvent) bool {
	if c.watches.open[n.of] != n.from { // from a watch that was closed
		return false
	}
	if n.ended {
		c.watches.reopen(ctx, n)
		return true
	}
	switch o := n.event.Object.(type) {
	case *corev1.Pod:
		return o.Name == n.of.name && c.handlePod(o, n.event.Type == watch.Deleted)
	case *corev1.Node:
		if o.Name != n.of.name {
			return false
		}
		state := stateOf(o)
		state.gone = n.event.Type == watch.Deleted
		c.nodes[o.Name] = state
		return state.down()
	case metav1.Object:
		return o.GetName() == c.config.lock && c.handleLock(o, n.event.Type == watch.Deleted)
	}
	return false
}

func (c *candidate) handlePod(pod *corev1.Pod, deleted bool) bool {
	s := c.others[pod.UID]
	if s == nil { // another Pod of that name, or our own
		return false
	}
	labelled := s.seen != nil && s.seen.Labels[c.label] != ""
	s.observe(pod)
	return deleted || ended(pod) || labelled && pod.Labels[c.label] == ""
}

func (c *candidate) handleLock(o metav1.Object, deleted bool) bool {
	if deleted {
		return c.seen == nil || c.seen.uid == o.GetUID()
	}
	return c.seen == nil || c.seen.uid != o.GetUID() || c.seen.version != o.GetResourceVersion()
}
