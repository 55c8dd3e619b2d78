package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const (
	parentLabel = "chaos.bellwether.dev/parent"
	parentIndex = "parent"
	// unknownFor is how long a request with an unknown outcome may still be carried out: longer
	// than the timeout of any request.
	unknownFor = 10 * time.Second
)

var secrets = corev1.SchemeGroupVersion.WithResource("secrets")

var errNotShown = errors.New("the cache does not show the child that was created, or may have been")

// byParent indexes children by the UID of their parent.
func byParent(obj any) ([]string, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("a %T", obj)
	}
	if parent := metav1.GetControllerOf(o); parent != nil {
		return []string{string(parent.UID)}, nil
	}
	return nil, nil
}

// children are the children of this shard's objects. A sixth of the objects has a child named after
// it. Another sixth has one with a generated name. The rest has none.
type children struct {
	cache cache.Indexer

	mu       sync.Mutex
	expected map[types.UID]expectation // by parent
}

// expectation is that a cache will show a child. Until then the child must not be created again.
type expectation struct {
	unknown time.Time // when a request failed that may yet be carried out; zero: the child was created
}

// wants says whether an object is to have a child, and whether the API server is to name that.
func wants(m *corev1.ConfigMap) (child, generated bool) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(m.Name))
	n := hash.Sum32() % 6
	return n < 2, n == 1
}

// ensure creates the child of an object, or has it tell the checksum.
func (w *work) ensure(ctx context.Context, m *corev1.ConfigMap, sum string, piece int64) error {
	wanted, generated := wants(m)
	if !wanted {
		return nil
	}
	c := w.children
	shown, err := c.cache.ByIndex(parentIndex, string(m.UID))
	if err != nil {
		return err
	}
	c.mu.Lock()
	expected, expects := c.expected[m.UID]
	if len(shown) > 0 {
		delete(c.expected, m.UID)
	}
	c.mu.Unlock()
	switch {
	case len(shown) > 0:
		child, ok := shown[0].(*corev1.Secret)
		if !ok || child.Annotations[sumAnnotation] == sum {
			return nil
		}
		return w.sign(ctx, child, map[string]string{sumAnnotation: sum}, piece)
	case expects && (expected.unknown.IsZero() || time.Since(expected.unknown) < unknownFor):
		return errNotShown
	case expects: // the cache may be behind
		there, err := w.client.CoreV1().Secrets(w.namespace).List(ctx, metav1.ListOptions{
			LabelSelector: labels.Set{parentLabel: string(m.UID)}.String(),
		})
		if err != nil {
			return err
		}
		if len(there.Items) > 0 {
			c.expect(m.UID, expectation{})
			return errNotShown
		}
	}
	return w.create(ctx, m, generated, sum, piece)
}

func (w *work) create(ctx context.Context, m *corev1.ConfigMap, generated bool, sum string, piece int64) error {
	by, err := w.signature(ctx, piece)
	if err != nil {
		return err
	}
	child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Labels: map[string]string{parentLabel: string(m.UID)},
		Annotations: map[string]string{sumAnnotation: sum, byAnnotation: by, madeAnnotation: by},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(m,
			corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	}}
	if generated {
		child.GenerateName = m.Name + "-"
	} else {
		child.Name = fmt.Sprintf("%s-%.8s", m.Name, m.UID)
	}
	if err := w.shard.Stamp(child); err != nil {
		return err
	}
	_, err = w.client.CoreV1().Secrets(m.Namespace).Create(ctx, child, metav1.CreateOptions{FieldManager: "chaos"})
	switch {
	case err == nil:
		w.children.expect(m.UID, expectation{})
	case apierrors.IsAlreadyExists(err): // by a request that seemed to have failed
		w.children.expect(m.UID, expectation{})
		return errNotShown
	default:
		w.children.expect(m.UID, expectation{unknown: time.Now()})
	}
	return err
}

func (c *children) expect(parent types.UID, e expectation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected[parent] = e
}

// tend is work on a child.
func (w *work) tend(ctx context.Context, child *corev1.Secret) error {
	parent := metav1.GetControllerOf(child)
	if parent == nil {
		return nil
	}
	piece, end := w.journal.begin(parent.UID)
	defer end()
	if err := w.toil(ctx); err != nil {
		return err
	}
	annotations := map[string]string{}
	if item, ok, err := w.roots.GetByKey(cache.NewObjectName(child.Namespace, parent.Name).String()); err == nil && ok {
		if m, ok := item.(*corev1.ConfigMap); ok && m.UID == parent.UID {
			annotations[sumAnnotation] = checksum(m.Data)
		}
	}
	if annotations[sumAnnotation] == child.Annotations[sumAnnotation] && rand.IntN(4) > 0 {
		return nil
	}
	return w.sign(ctx, child, annotations, piece)
}

// sign writes annotations on a child, with the signature of the writer.
func (w *work) sign(ctx context.Context, child *corev1.Secret, annotations map[string]string, piece int64) error {
	patch, err := w.patch(ctx, child.UID, annotations, piece)
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Secrets(child.Namespace).Patch(ctx, child.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "chaos"})
	return ignoreGone(err)
}
