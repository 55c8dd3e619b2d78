package main

import (
	"context"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1 "github.com/bellwether-k8s/bellwether/examples/controllerruntime/operator/v1"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

// image is what Pods that show a Widget run. It does nothing.
const image = "registry.k8s.io/pause:3.10"

// painter is a reconciler like any other. It gives a Widget a Deployment and its colour, and records who did.
type painter struct {
	client client.Client
	shard  *shard.Shard
	worker string
}

// Reconcile writes with ctx, which ends when another process may be at work. Its requests contain
// the version that it has read, so that it overwrites nothing that it has not seen.
func (p *painter) Reconcile(ctx context.Context, q ctrl.Request) (ctrl.Result, error) {
	var w v1.Widget
	if err := p.client.Get(ctx, q.NamespacedName, &w); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, p.client, d, func() error { return p.show(&w, d) }); err != nil {
		return ctrl.Result{}, err // even if the Deployment exists and the cache does not show it yet
	}
	if w.Status.Colour == w.Spec.Colour {
		return ctrl.Result{}, nil
	}
	w.Status = v1.WidgetStatus{Colour: w.Spec.Colour, Worker: p.worker}
	return ctrl.Result{}, p.client.Status().Update(ctx, &w)
}

// show gives the Pods of a Widget its labels, but not those of the ring, which change when the Widget moves
// to another shard, so that all Pods would be replaced. The stamp comes last, because it is a label.
func (p *painter) show(w *v1.Widget, d *appsv1.Deployment) error {
	own := map[string]string{"example.bellwether.dev/widget": string(w.UID)}
	d.Labels = api.WithoutMarks(w.Labels)
	d.Spec.Replicas = &w.Spec.Replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: own}
	d.Spec.Template.Labels = maps.Clone(own)
	maps.Copy(d.Spec.Template.Labels, d.Labels)
	if len(d.Spec.Template.Spec.Containers) == 0 { // later it has the defaults of the API server
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "widget", Image: image}}
	}
	if err := controllerutil.SetControllerReference(w, d, p.client.Scheme()); err != nil {
		return err
	}
	return p.shard.Stamp(d)
}
