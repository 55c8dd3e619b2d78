package main

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// censusName is the ConfigMap with the number of digests.
const censusName = "digests-census"

// census is a controller that is not sharded, because it reads all objects and writes one. Two of
// them would conflict.
type census struct {
	client    client.Client // guarded by the election
	namespace string
}

func (c *census) setUp(mgr ctrl.Manager) error {
	c.client = mgr.GetClient()
	one := func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: c.namespace, Name: censusName}}}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("census").Watches(&corev1.Secret{},
		handler.EnqueueRequestsFromMapFunc(one)).Complete(c)
}

// Reconcile counts the digests.
func (c *census) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var all corev1.SecretList
	if err := c.client.List(ctx, &all, client.InNamespace(r.Namespace)); err != nil {
		return ctrl.Result{}, err
	}
	digests := 0
	for _, s := range all.Items {
		if s.Data[digestKey] != nil {
			digests++
		}
	}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.client, m, func() error {
		m.Data = map[string]string{"digests": strconv.Itoa(digests)}
		return nil
	})
	return ctrl.Result{}, err
}
