package fencing

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/cluster"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// commissionRequest is an annotation of a node that asks for a commission, while it is there.
type commissionRequest struct {
	asked   string // its value
	busy    bool   // it is being handled
	refused bool   // and that was reported
	retries *kube.Failures
}

// takeRequests handles requests in annotations of nodes, once this process can judge them.
func (r *run) takeRequests(ctx context.Context) {
	if r.config.Leadership.Remaining() <= 0 || time.Since(r.began) < r.config.Limits.Observation+tick {
		return
	}
	nodes, _ := r.state.nodeLister.List(labels.Everything()) // a lister of an informer has no errors
	for _, n := range nodes {
		q := r.request(n)
		if q == nil || !r.judges(n) {
			continue
		}
		r.mu.Lock()
		if !r.closed {
			q.busy = true
			r.ended.Go(func() {
				done := r.take(ctx, n, q)
				r.mu.Lock()
				defer r.mu.Unlock()
				if q.busy = false; done {
					delete(r.requests, n.Name)
				}
			})
		}
		r.mu.Unlock()
	}
}

// request returns the request of a node, or nil if there is none or it is being handled.
func (r *run) request(n *corev1.Node) *commissionRequest {
	asked, ok := n.Annotations[v1alpha1.AnnotationCommission]
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.requests[n.Name]
	switch {
	case q != nil && q.busy:
		return nil
	case !ok:
		delete(r.requests, n.Name)
		return nil
	case q == nil || q.asked != asked:
		q = &commissionRequest{
			asked:   asked,
			retries: kube.NewFailures(r.config.Logger.With(zap.String("node", n.Name)), r.clock),
		}
		r.requests[n.Name] = q
	}
	return q
}

// judges reports whether the requests of a node are for this controller, and its devices were
// checked.
func (r *run) judges(n *corev1.Node) bool {
	facts, known := r.state.nodes.FactsOf(n.Name, time.Now())
	return known && facts.Selected && (r.checks.done(n.Name) || !r.state.selected(n))
}

// take begins a requested commission, or reports once why not. In both cases it removes the
// annotation, which has one effect only, and returns true when it is gone. If the process dies
// before, the record has the request.
func (r *run) take(ctx context.Context, n *corev1.Node, q *commissionRequest) (done bool) {
	log := r.config.Logger.With(zap.String("node", n.Name))
	retry := func(message string, err error) bool {
		if ctx.Err() == nil {
			q.retries.Note(message, err, message, "")
		}
		return false
	}
	_, err := r.ask(ctx, n.Name, &q.asked)
	switch {
	case errors.Is(err, ErrRefused):
		if !q.refused {
			q.refused = true
			r.nodeEvent(n, corev1.EventTypeWarning, "CommissionRefused", "Commission", err.Error())
			log.Warn("commission refused", zap.Error(err))
		}
	case err != nil && !errors.Is(err, errTaken):
		return retry("commission not started, retrying", err)
	}
	of, err := cluster.New(r.kube, cluster.Config{Name: n.Name, UID: n.UID, Incident: 1})
	if err == nil {
		err = of.DropAnnotation(ctx, v1alpha1.AnnotationCommission, q.asked)
	}
	if err != nil {
		return retry("annotation not removed, retrying", err)
	}
	return true
}
