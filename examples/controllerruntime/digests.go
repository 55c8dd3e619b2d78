package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"time"

	"github.com/bellwether-k8s/bellwether/controllerruntime"
	"github.com/bellwether-k8s/bellwether/sharder/shard"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	// wanted are the ConfigMaps that get a Secret.
	wanted = labels.SelectorFromSet(labels.Set{"example.bellwether.dev/digest": "wanted"})
)

// digestKey is the key of a Secret with the SHA-256 of the JSON of the ConfigMap's data.
const digestKey = "sha256"

// digests is the sharded controller. Replace it by yours.
type digests struct {
	client  client.Client // guarded by the shard lease
	shard   *shard.Shard
	workers int
	takes   time.Duration
	journal bool
	log     *zap.Logger
}

func (d *digests) addFlags() {
	flag.IntVar(&d.workers, "workers", 4, "how many ConfigMaps to work on at a time")
	flag.DurationVar(&d.takes, "work-takes", 0, "how long to pretend that a digest takes")
	flag.BoolVar(&d.journal, "journal", false, "log when work on each ConfigMap begins and ends")
}

func (d *digests) setUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: d.workers}).
		Complete(d.guarded())
}

// guarded reconciles this shard's objects, while no other process can.
func (d *digests) guarded() reconcile.Reconciler {
	return controllerruntime.WrapReconciler[corev1.ConfigMap](d.shard, d.client, d)
}

// Reconcile writes with ctx, which ends when another process may be at work.
func (d *digests) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	if d.journal {
		log := d.log.With(zap.String("object", r.Name))
		log.Info("work begins")
		defer log.Info("work has ended")
	}
	var m corev1.ConfigMap
	if err := d.client.Get(ctx, r.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	sum := digest(m.Data)
	select {
	case <-ctx.Done():
		return ctrl.Result{}, context.Cause(ctx)
	case <-time.After(d.takes):
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name + "-digest"}}
	_, err := controllerutil.CreateOrUpdate(ctx, d.client, secret, func() error {
		secret.Data = map[string][]byte{digestKey: []byte(sum)}
		return errors.Join(controllerutil.SetControllerReference(&m, secret, d.client.Scheme()), d.shard.Stamp(secret))
	})
	return ctrl.Result{}, err
}

func digest(data map[string]string) string {
	encoded, err := json.Marshal(data) // sorts the keys
	if err != nil {
		panic(err) // impossible for strings
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
