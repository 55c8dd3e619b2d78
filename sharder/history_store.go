package sharder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// HistoryName returns the name of the ConfigMap, in the namespace of the Leases, with the ring's
// history: the memberships under which objects may have been assigned. If it is deleted or edited,
// the sharder cannot tell which shards may work on an object whose labels and record were lost.
func HistoryName(ring string) string { return ring + ".ring.bellwether.dev" }

// historyKey is the key of the history in the ConfigMap's data.
const historyKey = "memberships"

// historyStore keeps the ring's history for the next sharder. It is for one goroutine.
type historyStore struct {
	kube            kubernetes.Interface
	namespace, ring string

	stored *corev1.ConfigMap // as last read; nil if it does not exist
	stands protocol.History  // the history in stored
	known  protocol.History  // stands, and memberships that may have been stored

	// over reports whether an owner epoch has ended for good. If it is nil, none is known to have
	// ended.
	over func(protocol.OwnerEpoch) bool
}

// load reads the history, or returns errNoHistory if none is readable.
func (l *historyStore) load(ctx context.Context) error {
	h, problem, err := l.read(ctx)
	switch {
	case err != nil:
		return err
	case problem != nil:
		return fmt.Errorf("%w: ConfigMap %s/%s: %w", errNoHistory, l.namespace, HistoryName(l.ring), problem)
	case len(h.Memberships) == 0:
		return errNoHistory
	}
	l.known = h
	return nil
}

var errNoHistory = errors.New("no ring history")

func (l *historyStore) read(ctx context.Context) (h protocol.History, problem, err error) {
	l.stored, l.stands = nil, protocol.History{}
	m, err := bounded(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return l.kube.CoreV1().ConfigMaps(l.namespace).Get(ctx, HistoryName(l.ring), metav1.GetOptions{})
	})
	err = kube.Named(m, HistoryName(l.ring), err)
	switch {
	case l.absent(err):
		return protocol.History{}, nil, nil
	case err != nil:
		return protocol.History{}, nil, l.failed("get", err)
	}
	l.stored = m
	l.stands, problem = protocol.ParseHistory(m.Data[historyKey])
	return l.stands, problem, nil
}

// absent reports whether err means that there is no history.
func (l *historyStore) absent(err error) bool {
	return kube.Absent(err, corev1.Resource("configmaps"), HistoryName(l.ring))
}

// failed adds the request to an error.
func (l *historyStore) failed(verb string, err error) error {
	name := HistoryName(l.ring)
	return &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: corev1.Resource("configmaps"), Namespace: l.namespace, Name: name},
		Object: fmt.Sprintf("ConfigMap %s/%s, the ring's history", l.namespace, name), Err: err,
	}
}

// assume sets a history that is not stored yet.
func (l *historyStore) assume(h protocol.History) { l.known = h }

// begin stores m as the present membership by a compare-and-swap. After it succeeds, objects may be
// assigned under m. It writes even if the history contains m, unless m is the last, so that an
// earlier sharder's attempt to shrink the history fails.
func (l *historyStore) begin(ctx context.Context, m protocol.Membership) error {
	for {
		if n := len(l.stands.Memberships); n > 0 && slices.Equal(l.stands.Memberships[n-1], m) &&
			l.stands.Contains(l.known) {
			return nil
		}
		err := l.write(ctx, l.known.With(m).Bounded(protocol.MaxHistory, l.ended))
		if err == nil {
			return nil
		}
		if refreshErr := l.refresh(ctx); refreshErr != nil {
			return refreshErr
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !l.absent(err) {
			return err
		}
	}
}

func (l *historyStore) ended(t protocol.OwnerEpoch) bool { return l.over != nil && l.over(t) }

// settle stores that all objects, except apart, are with their owners under the only membership of
// h, which is the last one begun. It fails if the stored history has changed; then another scan
// must prove it again.
func (l *historyStore) settle(ctx context.Context, h protocol.History) error {
	err := l.write(ctx, h)
	if err != nil {
		_ = l.refresh(ctx) // otherwise the next attempt would also fail
	}
	return err
}

// refresh reads the stored history. Known memberships stay known, because more of them are always
// safe.
func (l *historyStore) refresh(ctx context.Context) error {
	h, _, err := l.read(ctx)
	if err != nil {
		return err
	}
	l.known = l.known.Union(h)
	return nil
}

func (l *historyStore) write(ctx context.Context, h protocol.History) error {
	maps := l.kube.CoreV1().ConfigMaps(l.namespace)
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: HistoryName(l.ring)}}
	if l.stored != nil {
		next = l.stored.DeepCopy()
	}
	metav1.SetMetaDataLabel(&next.ObjectMeta, shardlease.RingLabel, l.ring)
	next.Data = map[string]string{historyKey: h.Encode()}
	verb := "update"
	stored, err := bounded(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
		if l.stored == nil {
			verb = "create"
			return maps.Create(ctx, next, metav1.CreateOptions{FieldManager: protocol.FieldManager})
		}
		return maps.Update(ctx, next, metav1.UpdateOptions{FieldManager: protocol.FieldManager})
	})
	err = kube.Named(stored, next.Name, err)
	if err == nil && stored.Data[historyKey] != next.Data[historyKey] {
		err = protocol.ErrPutBack
	}
	if err != nil {
		return l.failed(verb, err)
	}
	l.stored, l.stands, l.known = stored, h, h
	return nil
}
