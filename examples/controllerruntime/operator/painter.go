package main

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator/v1"
)

// painter is a reconciler like any other. It gives a Widget its colour, and says who did.
type painter struct {
	client client.Client
	worker string
}

// Reconcile writes with ctx, which ends when another process may be at work. The version of what it
// has read is in the request, so that it overwrites nothing that it has not seen.
func (p *painter) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var w v1.Widget
	if err := p.client.Get(ctx, q.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if w.Status.Colour == w.Spec.Colour {
		return ctrl.Result{}, nil
	}
	w.Status = v1.WidgetStatus{Colour: w.Spec.Colour, Worker: p.worker}
	return ctrl.Result{}, p.client.Status().Update(ctx, &w)
}
