package leasehold

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

var leases = coordinationv1.Resource("leases")

// Store reads and writes one Lease. It is not for concurrent use, except for one Watch beside the other
// methods.
type Store struct {
	Name   types.NamespacedName
	client coordinationclient.LeaseInterface
	shared *kube.SharedWatches
	clock  clock.Clock
	log    *zap.Logger

	failures *kube.Failures // by verb
	refused  *kube.Refusals // by verb
	refusals int            // of watches, in a row; only Watch uses it
}

// NewStore returns the store of a Lease. Refusals at most gap apart are one streak.
func NewStore(api coordinationclient.CoordinationV1Interface, c Config, gap time.Duration) *Store {
	return &Store{
		Name: c.Lease, client: api.Leases(c.Lease.Namespace), shared: kube.WatchesOf(api.RESTClient()),
		clock: c.Clock, log: c.Log,
		failures: kube.NewFailures(c.Log, c.Clock), refused: kube.NewRefusals(c.Clock, gap),
	}
}

// RequestError returns the error of a request on a Lease.
func RequestError(verb string, lease types.NamespacedName, err error) error {
	return &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: leases, Namespace: lease.Namespace, Name: lease.Name},
		Object: "Lease " + lease.String(), Err: err,
	}
}

// Get reads the record consistently. An absent Lease is not an error.
func (s *Store) Get(ctx context.Context, timeout time.Duration) (lease.Record, error) {
	bounded, cancel := clock.WithTimeout(own(ctx), s.clock, timeout)
	defer cancel()
	l, err := s.ask(bounded, "get", s.get)
	return s.note(ctx, "get", l, err)
}

func (s *Store) get(ctx context.Context) (*coordinationv1.Lease, error) {
	l, err := s.client.Get(ctx, s.Name.Name, metav1.GetOptions{})
	if kube.Absent(err, leases, s.Name.Name) {
		return nil, nil
	}
	return l, err
}

// replacing returns the request that creates l, or updates it if base is known. After any error the
// outcome is unknown until the record was read again, because even a conflict may be with an
// earlier write of ours. It is an error as well if the API server has stored another spec.
func (s *Store) replacing(l *coordinationv1.Lease, base lease.Record) (
	verb string, request func(context.Context) (*coordinationv1.Lease, error),
) {
	if !base.Exists() {
		return "create", func(ctx context.Context) (*coordinationv1.Lease, error) {
			stored, err := s.client.Create(ctx, l, metav1.CreateOptions{})
			return lease.AsSent(l, stored, err)
		}
	}
	return "update", func(ctx context.Context) (*coordinationv1.Lease, error) {
		stored, err := s.client.Update(ctx, l, metav1.UpdateOptions{})
		return lease.AsSent(l, stored, err)
	}
}

// ask sends one request, which ends with ctx.
func (s *Store) ask(ctx context.Context, verb string, request func(context.Context) (*coordinationv1.Lease, error)) (
	*coordinationv1.Lease, error,
) {
	ctx, answers := observed(ctx)
	l, err := request(ctx)
	if l != nil {
		err = kube.Named(l, s.Name.Name, err)
	}
	switch {
	case err == nil:
		return l, nil
	case ctx.Err() != nil: // a better reason than a cancelled context
		err = answers.explain(context.Cause(ctx))
	}
	return nil, RequestError(verb, s.Name, err)
}

// note handles the end of a request, and logs failures by verb.
func (s *Store) note(ctx context.Context, verb string, l *coordinationv1.Lease, err error) (lease.Record, error) {
	s.refused.Note(verb, kube.AccessDenied(err))
	if err == nil || !isLostRace(err) && !gaveUp(ctx) {
		s.noteFailure(verb, err)
	}
	if err != nil {
		return lease.Record{}, err
	}
	return lease.RecordOf(l), nil
}

// gaveUp reports whether ctx has ended for another reason than its time.
func gaveUp(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

func (s *Store) noteFailure(verb string, err error) {
	s.failures.Note(verb, err, "request failed, retrying", "request succeeds again", zap.String("verb", verb))
}

// refusedFor returns how long the API server has not permitted the verb of err; zero if err is
// another error.
func (s *Store) refusedFor(err error) time.Duration {
	var failed *kube.RequestError
	if !errors.As(err, &failed) || !kube.AccessDenied(failed.Err) {
		return 0
	}
	return s.refused.Lasted(failed.Verb)
}

// Watch streams the versions of the Lease after a resourceVersion; if that is empty, the present
// version comes first. If the stream is shared with others (see [kube.SharedWatches]), it begins with
// the next version instead. openTimeout bounds the time until the stream is open. Call Stop to end
// it. It logs failures.
func (s *Store) Watch(ctx context.Context, after string, openTimeout time.Duration) (watch.Interface, error) {
	observing, answers := observed(own(ctx))
	open := func(o metav1.ListOptions) kube.Opening {
		return func(ctx context.Context) (watch.Interface, error) {
			return kube.Watch(ctx, s.clock, openTimeout,
				func(ctx context.Context) (watch.Interface, error) { return s.client.Watch(ctx, o) })
		}
	}
	w, err := s.shared.Watch(observing, s.clock, "leases/"+s.Name.Namespace, s.Name.Name, open(metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, s.Name.Name).String(),
		ResourceVersion: after,
	}), open(metav1.ListOptions{}))
	if errors.Is(err, context.DeadlineExceeded) {
		err = answers.explain(err)
	}
	if err != nil {
		err = RequestError("watch", s.Name, err)
	}
	if ctx.Err() == nil {
		s.noteWatch(err)
	}
	return w, err
}

// noteWatch logs the outcome of opening a watch, if it is news. One refusal is not, because an API
// server that is starting refuses everything for a moment. More are logged once, because polling
// works.
func (s *Store) noteWatch(err error) {
	if !kube.RoleMissing(err) {
		s.refusals = 0
		s.noteFailure("watch", err)
		return
	}
	if s.refusals++; s.refusals == 2 {
		s.log.Warn("polling instead of watching: succession takes up to a renew interval longer, and idle candidates "+
			"send requests", zap.Error(err))
	}
}

// recordOf returns the version in an event, including the last version of a deleted Lease. ok is
// false without one.
func (s *Store) recordOf(e watch.Event) (r lease.Record, ok bool) {
	l, ok := e.Object.(*coordinationv1.Lease)
	if !ok || l.Name != s.Name.Name || e.Type == watch.Bookmark { // fake clientsets do not select by name
		return lease.Record{}, false
	}
	return lease.RecordOf(l), true
}
