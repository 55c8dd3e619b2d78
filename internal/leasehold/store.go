package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var leases = coordinationv1.Resource("leases")

// Store reads and writes one Lease. Each request has a timeout; none is retried here. It is not for
// concurrent use, except for one Watch beside the other methods.
type Store struct {
	Name   types.NamespacedName
	client coordinationclient.LeaseInterface
	clock  clock.Clock
	log    *zap.Logger

	failing map[string]bool    // verbs whose failure was logged, until they succeed
	refused map[string]refusal // verbs that RBAC refuses, until it does not
	gap     time.Duration      // refusals farther apart are separate streaks
	watches watchLog
}

// refusal is a streak of requests that RBAC refused.
type refusal struct{ first, last clock.Reading }

// NewStore returns the store of a Lease. Refusals at most gap apart are one streak.
func NewStore(client kubernetes.Interface, c Config, gap time.Duration) *Store {
	return &Store{
		Name: c.Lease, client: client.CoordinationV1().Leases(c.Lease.Namespace), clock: c.Clock, log: c.Log,
		failing: map[string]bool{}, refused: map[string]refusal{}, gap: gap,
	}
}

// AccessError is a failed request on a Lease.
type AccessError struct {
	Verb  string // as in RBAC
	Lease types.NamespacedName
	Err   error
}

// Error names the verb, the Lease, and the right to grant if that is missing.
func (e *AccessError) Error() string {
	if kube.RoleMissing(e.Err) {
		return fmt.Sprintf("not allowed to %s Lease %s: grant the verb %q on resource leases of API group "+
			"coordination.k8s.io in namespace %s: %v",
			e.Verb, e.Lease, e.Verb, e.Lease.Namespace, e.Err)
	}
	return fmt.Sprintf("%s Lease %s: %v", e.Verb, e.Lease, e.Err)
}

// Unwrap returns the API error.
func (e *AccessError) Unwrap() error { return e.Err }

// Get reads the record consistently. An absent Lease is not an error.
func (s *Store) Get(ctx context.Context, timeout time.Duration) (lease.Record, error) {
	return s.do(ctx, "get", timeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
		l, err := s.client.Get(ctx, s.Name.Name, metav1.GetOptions{})
		if kube.Absent(err, leases, s.Name.Name) {
			return nil, nil
		}
		return l, err
	})
}

// Write creates l, or updates it if it has the version of a read. After any error the outcome is
// unknown until the record was read again: even a conflict may be with an earlier write of ours. It
// is also an error if the API server has stored another spec. Only the timeout cancels a write, not
// the end of ctx, unless another lease steps down: an abandoned write may begin an unknown term.
func (s *Store) Write(ctx context.Context, timeout time.Duration, l *coordinationv1.Lease, base lease.Record) (
	lease.Record, error,
) {
	ctx, end := outliving(ctx)
	defer end()
	if !base.Exists() {
		return s.do(ctx, "create", timeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
			stored, err := s.client.Create(ctx, l, metav1.CreateOptions{})
			return lease.AsSent(l, stored, err)
		})
	}
	return s.do(ctx, "update", timeout, func(ctx context.Context) (*coordinationv1.Lease, error) {
		stored, err := s.client.Update(ctx, l, metav1.UpdateOptions{})
		return lease.AsSent(l, stored, err)
	})
}

// do sends one request. It logs the first failure of a verb, and the end of the failures.
func (s *Store) do(ctx context.Context, verb string, timeout time.Duration,
	request func(context.Context) (*coordinationv1.Lease, error),
) (lease.Record, error) {
	bounded, cancel := clock.WithTimeout(own(ctx), s.clock, timeout)
	defer cancel()
	bounded, answers := observed(bounded)
	l, err := request(bounded)
	if l != nil {
		err = kube.Named(l, s.Name.Name, err)
	}
	s.noteRefusal(verb, kube.RoleMissing(err), s.clock.Now())
	if err == nil {
		if s.failing[verb] {
			delete(s.failing, verb)
			s.log.Info("request succeeds again", zap.String("verb", verb))
		}
		return lease.RecordOf(l), nil
	}
	if bounded.Err() != nil { // a better reason than a cancelled context
		err = answers.explain(context.Cause(bounded))
	}
	err = &AccessError{verb, s.Name, err}
	if !s.failing[verb] && !isLostRace(err) && ctx.Err() == nil {
		s.failing[verb] = true
		s.log.Warn("request failed, will be tried again", zap.Error(err))
	}
	return lease.Record{}, err
}

func (s *Store) noteRefusal(verb string, refused bool, now clock.Reading) {
	r, known := s.refused[verb]
	switch {
	case !refused:
		delete(s.refused, verb)
		return
	case !known || now.SinceAtLeast(r.last) > s.gap:
		r.first = now
	}
	r.last = now
	s.refused[verb] = r
}

// RefusedFor returns how long RBAC has refused the verb of err; zero if err is not a refusal.
func (s *Store) RefusedFor(err error) time.Duration {
	var access *AccessError
	if !errors.As(err, &access) || !kube.RoleMissing(access.Err) {
		return 0
	}
	r := s.refused[access.Verb]
	return r.last.SinceAtLeast(r.first)
}

// Forgive forgets all refusals.
func (s *Store) Forgive() { clear(s.refused) }

// Watch streams the versions of the Lease after a resourceVersion; if that is empty, the present
// version comes first. openTimeout bounds the time until the stream is open. Cancel ctx or call
// Stop to end it. It logs the first failure, and the end of the failures.
func (s *Store) Watch(ctx context.Context, after string, openTimeout time.Duration) (watch.Interface, error) {
	observing, answers := observed(own(ctx))
	w, err := kube.Watch(observing, s.clock, openTimeout, func(ctx context.Context) (watch.Interface, error) {
		return s.client.Watch(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name.Name).String(),
			ResourceVersion: after,
		})
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = answers.explain(err)
	}
	if err != nil {
		err = &AccessError{"watch", s.Name, err}
	}
	if ctx.Err() == nil {
		s.watches.note(err, s.log)
	}
	return w, err
}

// watchLog is what was said of a store's watches.
type watchLog struct {
	refusals int // in a row
	failing  bool
}

// note logs the outcome of a watch that was to be opened, if it is news. One refusal is none: an API
// server that is starting refuses everything for a moment.
func (w *watchLog) note(err error, log *zap.Logger) {
	if !kube.RoleMissing(err) {
		w.refusals = 0
	} else if w.refusals++; w.refusals != 2 {
		return
	}
	switch {
	case w.refusals > 0:
		log.Warn("polling instead of watching: succession takes up to a renew interval longer, and idle candidates "+
			"send requests", zap.Error(err))
	case err != nil && !w.failing:
		log.Warn("request failed, will be tried again", zap.Error(err))
	case err == nil && w.failing:
		log.Info("request succeeds again", zap.String("verb", "watch"))
	}
	w.failing = err != nil && w.refusals == 0
}

// recordOf returns the version in an event, also the last version of a deleted Lease. ok is false
// if there is none.
func (s *Store) recordOf(e watch.Event) (r lease.Record, ok bool) {
	l, ok := e.Object.(*coordinationv1.Lease)
	if !ok || l.Name != s.Name.Name || e.Type == watch.Bookmark { // fake clientsets do not select by name
		return lease.Record{}, false
	}
	return lease.RecordOf(l), true
}
