package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/bellwether-k8s/bellwether/sharder/shard"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	// wanted are the ConfigMaps that get a checksum.
	wanted = labels.SelectorFromSet(labels.Set{"example.bellwether.dev/checksum": "wanted"})
)

// checksumAnnotation is the annotation with the SHA-256 of the data's JSON.
const checksumAnnotation = "example.bellwether.dev/sha256"

// checksums is the controller. Replace it by yours.
type checksums struct {
	client    kubernetes.Interface // guarded by the shard's lease
	shard     *shard.Shard
	namespace string
	workers   int
	resync    time.Duration
	takes     time.Duration
	journal   bool
	log       *zap.Logger
}

func (c *checksums) addFlags() {
	flag.IntVar(&c.workers, "workers", 4, "how many ConfigMaps to work on at a time")
	flag.DurationVar(&c.resync, "resync", 0, "how often to look at every ConfigMap; 0: when it changes")
	flag.DurationVar(&c.takes, "work-takes", 0, "how long to pretend that a checksum takes")
	flag.BoolVar(&c.journal, "journal", false, "log when work on each ConfigMap begins and ends")
}

// run works on the ConfigMaps of this shard until ctx ends.
func (c *checksums) run(ctx context.Context) error {
	source := shard.ListerWatcher(c.client.CoreV1().ConfigMaps(c.namespace), c.client)
	informer := c.shard.NewInformer(source, &corev1.ConfigMap{}, c.resync, cache.Indexers{})
	return shard.RunController(ctx, c.shard, informer, c.workers, c.reconcile)
}

// reconcile is called while no other process can work on m. It writes with ctx, which ends when
// another process may work on m.
func (c *checksums) reconcile(ctx context.Context, m *corev1.ConfigMap) error {
	if c.journal {
		log := c.log.With(zap.String("object", m.Name))
		log.Info("work begins")
		defer log.Info("work has ended")
	}
	sum := checksum(m.Data)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(c.takes):
	}
	if m.Annotations[checksumAnnotation] == sum {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": m.ResourceVersion, // the version that the checksum is of
		"annotations":     map[string]string{checksumAnnotation: sum},
	}})
	if err != nil {
		return err
	}
	_, err = c.client.CoreV1().ConfigMaps(m.Namespace).Patch(ctx, m.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "checksums"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // it has changed, so it comes again soon
	}
	return err
}

func checksum(data map[string]string) string {
	encoded, err := json.Marshal(data) // sorts the keys
	if err != nil {
		panic(err) // impossible for strings
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}
