package sharder

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// poll is an elector that always leads. It calls over when it has given the leadership up.
type poll struct{ over func() }

func (p poll) Run(ctx context.Context, lead func(context.Context) error) error {
	err := lead(ctx)
	if p.over != nil {
		p.over()
	}
	return err
}

// alone returns a replica with that elector. The replica sends the loss and the release of its
// lease to events.
func (w *world) alone(e Elector) (r Replica, events chan string) {
	w.t.Helper()
	events = make(chan string, 10)
	kube, meta := w.clients(w.server.Client("a"))
	lease, err := shardlease.New(kube, shardlease.Config{
		Namespace: testNamespace, Ring: testRing, Identity: "a",
		OnLost: func(error) { events <- "lost" },
		Hooks:  shardlease.Hooks{OnReleased: func(shardlease.Epoch) { events <- "released" }},
	})
	require.NoError(w.t, err)
	s, err := New(kube, meta, ringtest.TestMapper(), w.config())
	require.NoError(w.t, err)
	return Replica{Lease: lease, Elector: e, Sharder: s}, events
}

func TestAReplicaEndsItsWorkThenTheSharderThenItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var r Replica
		var events chan string
		r, events = w.alone(poll{over: func() { events <- "leadership given up" }})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				w.create(3, "late")
				time.Sleep(time.Second)
				w.requirePlaced(3, "a") // the sharder is still at work
				events <- "work has ended"
				return ctx.Err()
			})
		}()
		time.Sleep(time.Second)
		end()
		require.NoError(t, <-ended)
		assert.Equal(t, "work has ended", <-events)
		assert.Equal(t, "leadership given up", <-events)
		assert.Equal(t, "released", <-events)
		assert.Empty(t, events)
	})
}

func TestAReplicaWhoseSharderFailsEndsAndReleasesItsLease(t *testing.T) {
	failure := errors.New("not allowed")
	for name, c := range map[string]struct {
		elector Elector
		late    bool // the process must end before the work has
		want    string
	}{
		"an error":              {hungElection{failure}, false, "not allowed"},
		"an error at the end":   {hungElection{failure}, true, "not allowed"},
		"an election that ends": {hungElection{}, false, "sharder: the election has ended without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				r, events := w.alone(c.elector)
				ctx, end := context.WithCancel(t.Context())
				defer end()
				err := r.Run(ctx, func(ctx context.Context) error {
					<-ctx.Done()
					if c.late {
						end()
					}
					return context.Cause(ctx)
				})
				require.EqualError(t, err, c.want)
				assert.Equal(t, "released", <-events)
				assert.Empty(t, events)
			})
		})
	}
}

// hungElection is an elector that never leads and returns err.
type hungElection struct{ err error }

func (r hungElection) Run(context.Context, func(context.Context) error) error { return r.err }

func TestAReplicaWhoseWorkFailsEndsItsSharderAndKeepsItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, events := w.alone(poll{})
		failure := errors.New("no cache")
		err := r.Run(t.Context(), func(context.Context) error { return failure })
		require.ErrorIs(t, err, failure)
		require.ErrorIs(t, err, shardlease.ErrUnfinished, "some of it may still be running")
		assert.Equal(t, "lost", <-events)
		_, runs := r.Sharder.Status()
		assert.False(t, runs)
		assert.Equal(t, "a", w.holder("a"))
	})
}

func TestAReplicaThatLosesItsLeaseWorksAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, events := w.alone(poll{})
		ctx, end := context.WithCancel(t.Context())
		terms := 0
		assert.NoError(t, r.Run(ctx, func(ctx context.Context) error {
			terms++
			if terms == 2 {
				time.Sleep(time.Second)
				_, runs := r.Sharder.Status()
				assert.True(t, runs)
				end()
				return nil
			}
			assert.NoError(t,
				w.kube.CoordinationV1().Leases(testNamespace).Delete(t.Context(), "a", metav1.DeleteOptions{}))
			<-ctx.Done() // which may come before the answer
			return ctx.Err()
		}))
		assert.Equal(t, "lost", <-events)
		assert.Equal(t, "released", <-events)
		assert.Equal(t, 2, terms)
	})
}

func TestWhatOnlyOneReplicaDoesRunsBesideTheSharder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, events := w.alone(nil)
		r.Leading = func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(time.Second)
			events <- "what only the leader does has ended"
			return ctx.Err()
		}
		r.Elector = poll{over: func() { events <- "leadership given up" }}
		ctx, end := context.WithCancel(t.Context())
		assert.NoError(t, r.Run(ctx, func(ctx context.Context) error {
			w.create(3, "some")
			time.Sleep(time.Second)
			w.requirePlaced(3, "a")
			end()
			<-ctx.Done()
			events <- "work has ended"
			return nil
		}))
		assert.Equal(t, "work has ended", <-events)
		assert.Equal(t, "what only the leader does has ended", <-events)
		assert.Equal(t, "leadership given up", <-events)
		assert.Equal(t, "released", <-events)
		assert.Empty(t, events)
	})
}

func TestAReplicaEndsIfWhatOnlyOneDoesFails(t *testing.T) {
	for name, c := range map[string]struct {
		failure error
		want    string
	}{
		"an error":         {errors.New("no cache"), "no cache"},
		"an early end":     {nil, "sharder: Replica: Leading has ended without a reason"},
		"a foreign cancel": {context.Canceled, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				r, events := w.alone(poll{})
				r.Leading = func(context.Context) error {
					time.Sleep(time.Second)
					return c.failure
				}
				err := r.Run(t.Context(), func(ctx context.Context) error {
					<-ctx.Done()
					return context.Cause(ctx)
				})
				require.EqualError(t, err, c.want)
				_, runs := r.Sharder.Status()
				assert.False(t, runs)
				assert.Equal(t, "released", <-events)
				assert.Empty(t, events)
			})
		})
	}
}

func TestWhatOnlyOneReplicaDoesEndsIfTheSharderCannotRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, _ := w.alone(poll{})
		ended := false
		r.Leading = func(ctx context.Context) error {
			<-ctx.Done()
			ended = true
			return ctx.Err()
		}
		other := make(chan error, 1)
		sharding, stop := context.WithCancel(t.Context())
		go func() { other <- r.Sharder.Run(sharding) }()
		time.Sleep(time.Second)
		assert.ErrorIs(t, r.lead(t.Context()), ErrBusy)
		assert.True(t, ended)
		stop()
		assert.NoError(t, <-other)
	})
}

func TestAReplicaIsWhole(t *testing.T) {
	err := Replica{}.Run(t.Context(), func(context.Context) error { return nil })
	assert.EqualError(t, err, "sharder: Replica: Lease, Elector and Sharder must not be nil")
}

// holder returns the holder of a lease.
func (w *world) holder(shard string) string {
	lease, err := w.kube.CoordinationV1().Leases(testNamespace).Get(w.t.Context(), shard, metav1.GetOptions{})
	require.NoError(w.t, err)
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}
