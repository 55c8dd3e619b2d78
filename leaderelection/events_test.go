package leaderelection_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// A recorder of the older package fits.
var _ events.EventRecorder = record.NewEventRecorderAdapter(nil)

// recordTo sets Events.
func recordTo(recorder events.EventRecorder) func(*leaderelection.Config) {
	return func(c *leaderelection.Config) { c.Events = recorder }
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := events.NewFakeRecorder(10)
		r := newReplica(t, newAPI(), "a", recordTo(recorder))
		r.start(t)
		assert.Equal(t, "Normal LeaderElection a became leader", <-recorder.Events)
		require.NoError(t, r.stop())
		assert.Equal(t, "Normal LeaderElection a stopped leading", <-recorder.Events)
		r.start(t)
		assert.Equal(t, "Normal LeaderElection a became leader", <-recorder.Events)
		r.set(&r.refuse, func(string) error {
			return apierrors.NewInternalError(fmt.Errorf("100%% %s", strings.Repeat("ä", 1000)))
		})
		time.Sleep(usable)
		synctest.Wait()
		lost := <-recorder.Events
		assert.Contains(t, lost, "Warning LeaderElection a lost the lead: not renewed in time: ")
		assert.Contains(t, lost, "100% ä", "no format")
		assert.LessOrEqual(t, len(lost)-len("Warning LeaderElection "), 1024, "what the API server takes")
		require.NoError(t, r.stop())
		assert.Empty(t, recorder.Events)
	})
}

func TestEventsAreAboutTheLease(t *testing.T) {
	a := newAPI()
	broadcaster := events.NewBroadcaster(nil)
	t.Cleanup(broadcaster.Shutdown)
	seen := make(chan *eventsv1.Event, 10)
	stop, err := broadcaster.StartEventWatcher(func(e runtime.Object) { seen <- e.(*eventsv1.Event) })
	require.NoError(t, err)
	t.Cleanup(stop)
	r := newReplica(t, a, "a", recordTo(broadcaster.NewRecorder(scheme.Scheme, "daemon")))
	_, err = r.TryAcquire(t.Context())
	require.NoError(t, err)
	e := <-seen
	assert.Equal(t, []string{"coordination.k8s.io/v1", "Lease", "ns", "l", string(a.lease(t).UID)}, []string{
		e.Regarding.APIVersion, e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name, string(e.Regarding.UID),
	}, "kubectl describe finds them by all of these")
	assert.Equal(t, "ns", e.Namespace)
	assert.Equal(t, "BecomeLeader", e.Action, "required")
	require.NoError(t, r.Release(t.Context()))
	assert.Equal(t, "StopLeading", (<-seen).Action)
}

// slowRecorder takes its time for each Event.
type slowRecorder struct {
	diary
	pause func(action string) time.Duration
}

func (r *slowRecorder) Eventf(_, _ runtime.Object, _, _, action, _ string, _ ...any) {
	time.Sleep(r.pause(action))
	r.note("%s", action)
}

func TestEventsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := &slowRecorder{pause: func(action string) time.Duration {
			if action == "BecomeLeader" {
				return time.Minute
			}
			return 0
		}}
		r := newReplica(t, newAPI(), "a", recordTo(recorder))
		r.start(t)
		require.NoError(t, r.stop())
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"BecomeLeader", "StopLeading"}, recorder.read())
	})
}

func TestRecorderHasAMomentBeforeTheProcessExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := &slowRecorder{pause: func(string) time.Duration { return 40 * time.Millisecond }}
		r := newReplica(t, newAPI(), "a", func(c *leaderelection.Config) {
			c.Events = recorder
			c.OnLost = func(error) { recorder.note("exit") }
		})
		r.start(t)
		r.set(&r.refuse, down)
		time.Sleep(usable + time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"BecomeLeader", "LoseLead", "exit"}, recorder.read())
		require.NoError(t, r.stop())
	})
}

func TestRecorderThatBlocksHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const moment = 50 * time.Millisecond
		a := newAPI()
		recorder := events.NewFakeRecorder(0) // without a reader
		r := newReplica(t, a, "a", recordTo(recorder))
		begin := time.Now()
		r.start(t)
		assert.Equal(t, begin, r.last(t).start)
		require.NoError(t, r.stop())
		assert.LessOrEqual(t, time.Since(begin), moment)
		for range 100 {
			r.start(t)
			r.set(&r.refuse, down)
			time.Sleep(usable + moment)
			synctest.Wait()
			require.False(t, r.IsLeader())
			r.set(&r.refuse, nil)
			require.NoError(t, r.stop())
			time.Sleep(duration)
		}
		assert.Len(t, r.losses(), 100, "OnLost, each time")

		waiting := 0
		for {
			select {
			case <-recorder.Events:
				waiting++
			case <-time.After(time.Second):
				assert.LessOrEqual(t, waiting, 10, "goroutines that wait")
				assert.Positive(t, waiting)
				return
			}
		}
	})
}
