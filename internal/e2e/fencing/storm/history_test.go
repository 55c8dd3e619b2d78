package storm_test

import (
	"slices"
	"sync"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// history is every version of every record, in the order in which they were stored.
type history struct {
	mu       sync.Mutex
	versions []*v1alpha1.NodeFence // guarded by mu
}

// record begins one.
func (c *cluster) record() *history {
	c.t.Helper()
	fences := c.nodeFences()
	var list *unstructured.UnstructuredList
	c.eventually("NodeFences are known", func() bool {
		var err error
		list, err = fences.List(c.t.Context(), metav1.ListOptions{})
		return err == nil
	})
	h := &history{}
	e2e.Follow(c.t, list.GetResourceVersion(), fences.Watch, func(e watch.Event) {
		f, u := &v1alpha1.NodeFence{}, e.Object.(*unstructured.Unstructured)
		assert.NoError(c.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f))
		h.mu.Lock()
		defer h.mu.Unlock()
		h.versions = append(h.versions, f)
	})
	return h
}

func (h *history) all() []*v1alpha1.NodeFence {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.versions)
}

// last is the newest record of each node.
func (h *history) last() map[string]*v1alpha1.NodeFence {
	last := map[string]*v1alpha1.NodeFence{}
	for _, f := range h.all() {
		last[f.Node] = f
	}
	return last
}

// are returns the nodes whose newest record is so.
func (h *history) are(so func(*v1alpha1.NodeFence) bool) (names []string) {
	for node, f := range h.last() {
		if so(f) {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}

func in(phase v1alpha1.Phase) func(*v1alpha1.NodeFence) bool {
	return func(f *v1alpha1.NodeFence) bool { return f.Status.Phase == phase }
}

func held(reason string) func(*v1alpha1.NodeFence) bool {
	return func(f *v1alpha1.NodeFence) bool { return f.Status.Hold != nil && f.Status.Hold.Reason == reason }
}

// ended is how the record of a node was when its first fence had ended; nil: it has not.
func (h *history) ended(node string) *v1alpha1.NodeFence {
	for _, f := range h.all() {
		if f.Node == node && f.Status.Phase == v1alpha1.PhaseFinal {
			return f
		}
	}
	return nil
}

// phases that the record of a node has been in.
func (h *history) phases(node string) (phases []v1alpha1.Phase) {
	for _, f := range h.all() {
		if f.Node == node && f.Status.Phase != "" && !slices.Contains(phases, f.Status.Phase) {
			phases = append(phases, f.Status.Phase)
		}
	}
	return phases
}

// heldAnew is how often a node has been held for a reason, once it was not.
func (h *history) heldAnew(node, reason string) int {
	n, before := 0, false
	for _, f := range h.all() {
		if f.Node == node {
			now := held(reason)(f)
			if now && !before {
				n++
			}
			before = now
		}
	}
	return n
}

// most is how many fences had devices switched at the same time: from the first intent to switch
// one off until all are on again, or left off.
func (h *history) most() int {
	most, switched := 0, map[string]bool{}
	for _, f := range h.all() {
		delete(switched, f.Node)
		switch f.Status.Phase {
		case v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering, v1alpha1.PhaseFinal, v1alpha1.PhaseGivenUp:
		default:
			if slices.ContainsFunc(f.Status.Devices, func(d v1alpha1.Device) bool { return d.Touched }) {
				switched[f.Node] = true
			}
		}
		most = max(most, len(switched))
	}
	return most
}
