package membership

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// HistoryName returns the name of the ConfigMap with the ring's history.
func HistoryName(ring string) string { return ring + ".ring.bellwether.dev" }

// historyKey is the key of the history in the ConfigMap's data, and divertedKey that of what is diverted.
const (
	historyKey  = "memberships"
	divertedKey = "diverted"
)

// historyStore keeps the ring's history for the next sharder. It is for one goroutine.
type historyStore struct {
	config Config
	over   func(protocol.OwnerEpoch) bool // reports whether an owner epoch has ended for good

	stored   *corev1.ConfigMap // as last read; nil if it does not exist
	stands   protocol.History  // the history in stored
	known    protocol.History  // stands, and memberships that may have been stored
	diverted map[uint64]string // what is stored, or to be
}

// load reads the history, or returns errNoHistory if none is readable.
func (s *historyStore) load(ctx context.Context) error {
	h, problem, err := s.read(ctx)
	switch {
	case err != nil:
		return err
	case problem != nil:
		return fmt.Errorf("%w: ConfigMap %s: %w", errNoHistory, s.name(), problem)
	case len(h.Memberships) == 0:
		return errNoHistory
	}
	s.known = h
	if s.diverted, err = parseDiverted(s.stored.Data[divertedKey]); err != nil {
		return fmt.Errorf("%w: ConfigMap %s: %w", errNoHistory, s.name(), err)
	}
	return nil
}

var errNoHistory = errors.New("no ring history")

func (s *historyStore) read(ctx context.Context) (h protocol.History, problem, err error) {
	s.stored, s.stands = nil, protocol.History{}
	m, err := kube.Bounded(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return s.maps().Get(ctx, HistoryName(s.config.Ring), metav1.GetOptions{})
	})
	err = kube.Named(m, HistoryName(s.config.Ring), err)
	switch {
	case s.absent(err):
		return protocol.History{}, nil, nil
	case err != nil:
		return protocol.History{}, nil, s.failed("get", err)
	}
	s.stored = m
	s.stands, problem = protocol.ParseHistory(m.Data[historyKey])
	return s.stands, problem, nil
}

// absent reports whether err means that there is no history.
func (s *historyStore) absent(err error) bool {
	return kube.Absent(err, corev1.Resource("configmaps"), HistoryName(s.config.Ring))
}

// failed adds the request to an error.
func (s *historyStore) failed(verb string, err error) error {
	return &kube.RequestError{
		Right: kube.Right{
			Verb: verb, Resource: corev1.Resource("configmaps"), Namespace: s.config.Namespace,
			Name: HistoryName(s.config.Ring),
		},
		Object: "ConfigMap " + s.name() + ", the ring's history", Err: err,
	}
}

// name returns the namespace and the name of the ConfigMap.
func (s *historyStore) name() string { return s.config.Namespace + "/" + HistoryName(s.config.Ring) }

func (s *historyStore) maps() corev1client.ConfigMapInterface {
	return s.config.Kube.CoreV1().ConfigMaps(s.config.Namespace)
}

// begin stores m as the present membership, and what is diverted under it, by a compare-and-swap. After it
// succeeds, objects may be assigned under m. It writes even if the history contains m, unless m is the last, so that an
// earlier sharder's attempt to shrink the history fails.
func (s *historyStore) begin(ctx context.Context, m protocol.Membership, diverted map[uint64]string) error {
	s.diverted = diverted
	owners := protocol.Displaced{}
	for hash, shard := range diverted {
		if t, ok := m.Member(shard); ok {
			owners[keyed(hash)] = []protocol.OwnerEpoch{t}
		}
	}
	s.known = s.known.WithOwners(owners)
	for {
		if s.stands.Present(m) && s.stands.Contains(s.known) && s.stored.Data[divertedKey] == encodeDiverted(diverted) {
			return nil
		}
		err := s.write(ctx, s.known.With(m).Bounded(protocol.MaxHistory, s.over))
		if err == nil {
			return nil
		}
		if refreshErr := s.refresh(ctx); refreshErr != nil {
			return refreshErr
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !s.absent(err) {
			return err
		}
	}
}

// settle stores that all objects, except apart, are with their owners under the only membership of
// h, which is the last one begun. It fails if the stored history has changed; then another scan
// must prove it again.
func (s *historyStore) settle(ctx context.Context, h protocol.History) error {
	err := s.write(ctx, h)
	if err != nil {
		_ = s.refresh(ctx) // otherwise the next attempt would also fail
	}
	return err
}

// refresh reads the stored history. Known memberships stay known, because more of them are always
// safe.
func (s *historyStore) refresh(ctx context.Context) error {
	h, _, err := s.read(ctx)
	if err != nil {
		return err
	}
	s.known = s.known.Union(h)
	return nil
}

func (s *historyStore) write(ctx context.Context, h protocol.History) error {
	next := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.config.Namespace, Name: HistoryName(s.config.Ring),
	}}
	if s.stored != nil {
		next = s.stored.DeepCopy()
	}
	metav1.SetMetaDataLabel(&next.ObjectMeta, shardlease.RingLabel, s.config.Ring)
	next.Data = map[string]string{historyKey: h.Encode()}
	if value := encodeDiverted(s.diverted); value != "" {
		next.Data[divertedKey] = value
	}
	verb := "update"
	stored, err := kube.Bounded(ctx, func(ctx context.Context) (*corev1.ConfigMap, error) {
		if s.stored == nil {
			verb = "create"
			return s.maps().Create(ctx, next, metav1.CreateOptions{FieldManager: protocol.FieldManager})
		}
		return s.maps().Update(ctx, next, metav1.UpdateOptions{FieldManager: protocol.FieldManager})
	})
	err = kube.Named(stored, next.Name, err)
	if err == nil && !maps.Equal(stored.Data, next.Data) {
		err = protocol.ErrPutBack
	}
	if err != nil {
		return s.failed(verb, err)
	}
	s.stored, s.stands, s.known = stored, h, h
	return nil
}
