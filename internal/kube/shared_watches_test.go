package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// watched is what the users of a client watch: objects o0, o1 and so on.
type watched struct {
	SharedWatches
	apart, together []*watch.FakeWatcher // that were opened
	refused         error                // of the next watches of all objects
	hang            bool                 // opening a watch of all objects has no answer
}

const patience = 3 * time.Second // for an answer to a watch

// open watches an object.
func (w *watched) open(ctx context.Context, i int) (watch.Interface, error) {
	apart := func(context.Context) (watch.Interface, error) {
		w.apart = append(w.apart, watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1}))
		return w.apart[len(w.apart)-1], nil
	}
	together := func(ctx context.Context) (watch.Interface, error) {
		if w.hang {
			ctx, end := context.WithTimeout(ctx, patience)
			defer end()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if w.refused != nil {
			return nil, w.refused
		}
		w.together = append(w.together, watch.NewFake())
		return w.together[len(w.together)-1], nil
	}
	return w.Watch(ctx, clock.System(), "key", fmt.Sprint("o", i), apart, together)
}

// share opens watches of the first n objects, and returns those that are shared.
func (w *watched) share(t *testing.T, n int) (all, shared []watch.Interface) {
	t.Helper()
	for i := range n {
		user, err := w.open(t.Context(), i)
		require.NoError(t, err)
		all = append(all, user)
	}
	require.Len(t, w.apart, min(n, maxApart))
	return all, all[maxApart:]
}

// object is a version of an object.
func object(i, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("o", i), ResourceVersion: fmt.Sprint(version)}}
}

// next returns the event that a user has, as the version of its object, or a word.
func next(w watch.Interface) string {
	synctest.Wait()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			return "ended"
		}
		o := e.Object.(metav1.Object)
		return fmt.Sprint(e.Type, " ", o.GetName(), "/", o.GetResourceVersion())
	default:
		return "nothing"
	}
}

func stop(users []watch.Interface) {
	for _, u := range users {
		u.Stop()
	}
}

func TestLaterUsersShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		all, shared := w.share(t, maxApart+3)
		require.Len(t, w.together, 1)
		w.together[0].Modify(object(maxApart, 1))
		w.together[0].Modify(object(maxApart+1, 2))
		w.together[0].Action(watch.Bookmark, object(maxApart+2, 3))
		assert.Equal(t, "MODIFIED o3/1", next(shared[0]))
		assert.Equal(t, "MODIFIED o4/2", next(shared[1]))
		assert.Equal(t, "nothing", next(shared[2]), "of others, and a bookmark")
		w.apart[0].Modify(object(0, 4))
		assert.Equal(t, "MODIFIED o0/4", next(all[0]))

		stop(all[:maxApart+2])
		assert.False(t, w.together[0].IsStopped())
		stop(all)
		synctest.Wait()
		assert.True(t, w.together[0].IsStopped(), "without users")
		again, err := w.open(t.Context(), 9)
		require.NoError(t, err)
		assert.Len(t, w.apart, maxApart+1, "one alone watches apart")
		again.Stop()
	})
}

func TestUsersOfOneObjectBeginWithThePresentVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w SharedWatches
		opened := 0
		events := watch.NewFake()
		join := func() watch.Interface {
			u, err := w.Join(t.Context(), clock.System(), "o7", "o7", func(context.Context) (watch.Interface, error) {
				opened++
				return events, nil
			})
			require.NoError(t, err)
			return u
		}
		first := join()
		assert.Equal(t, "nothing", next(first))
		events.Add(object(7, 1))
		events.Modify(object(7, 2))
		second := join()
		assert.Equal(t, "MODIFIED o7/2", next(second))
		events.Delete(object(7, 3))
		third := join()
		for _, u := range []watch.Interface{first, second, third} {
			assert.Equal(t, "DELETED o7/3", next(u))
			u.Stop()
		}
		assert.Equal(t, 1, opened)
		synctest.Wait()
		assert.True(t, events.IsStopped())
	})
}

func TestAUserThatDoesNotReadHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		all, shared := w.share(t, maxApart+2)
		for version := range 100 {
			w.together[0].Modify(object(maxApart, version))
			w.together[0].Modify(object(maxApart+1, version))
			assert.Equal(t, fmt.Sprint("MODIFIED o4/", version), next(shared[1]))
		}
		assert.Equal(t, "MODIFIED o3/99", next(shared[0]), "it has the latest version")
		assert.Equal(t, "nothing", next(shared[0]))
		stop(all)
	})
}

// When a shared watch ends, its users send requests again, so they learn of it one after the other,
// but soon. The first of them opens another one.
func TestASharedWatchEndsForAllOfItsUsers(t *testing.T) {
	for name, end := range map[string]func(*watch.FakeWatcher){
		"over":   (*watch.FakeWatcher).Stop,
		"failed": func(f *watch.FakeWatcher) { f.Error(&metav1.Status{Reason: metav1.StatusReasonExpired}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const users = 500
				w := &watched{}
				all, shared := w.share(t, maxApart+users)
				begin := time.Now()
				end(w.together[0])
				ended := map[time.Time]int{}
				for len(shared) > 0 {
					var left []watch.Interface
					for _, u := range shared {
						if next(u) == "ended" {
							ended[time.Now()]++
							continue
						}
						left = append(left, u)
					}
					if len(shared) == users {
						again, err := w.open(t.Context(), 0)
						require.NoError(t, err)
						assert.Len(t, w.together, 2)
						defer again.Stop()
					}
					shared = left
					time.Sleep(time.Millisecond)
				}
				assert.Greater(t, len(ended), users/3, "one after the other")
				assert.Less(t, time.Since(begin), endTime+100*time.Millisecond)
				stop(all)
			})
		})
	}
}

func TestUsersWatchApartWhereTheRoleDoesNotPermitAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{refused: apierrors.NewForbidden(corev1.Resource("pods"), "",
			errors.New(`User "u" cannot watch resource "pods"`))}
		var users []watch.Interface
		open := func() {
			u, err := w.open(t.Context(), len(users))
			require.NoError(t, err)
			users = append(users, u)
		}
		for range 10 {
			open()
		}
		require.Len(t, w.apart, 10)
		w.refused = nil
		time.Sleep(wasteMemory - time.Minute)
		open()
		require.Empty(t, w.together, "it is not asked again so soon")
		time.Sleep(2 * time.Minute)
		open()
		require.Len(t, w.together, 1, "but at last")
		stop(users)
	})
}

// A namespace may have thousands of objects of others. The events of all of them cost more than a connection for
// each user.
func TestNobodySharesAWatchThatIsMostlyOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		all, shared := w.share(t, maxApart+1)
		for i := range maxWaste {
			w.together[0].Add(object(1000+i, 1))
		}
		w.together[0].Modify(object(maxApart, 2))
		for i := range wasteRatio {
			w.together[0].Modify(object(1000+i, 2))
		}
		assert.Equal(t, "MODIFIED o3/2", next(shared[0]))
		require.Equal(t, "nothing", next(shared[0]))
		w.together[0].Modify(object(1000, 3))
		assert.Equal(t, "ended", next(shared[0]))
		again, err := w.open(t.Context(), maxApart)
		require.NoError(t, err)
		assert.Len(t, w.together, 1)
		assert.Len(t, w.apart, maxApart+1)
		stop(append(all, again))
	})
}

// One user's end does not end the opening that others wait for.
func TestASharedWatchThatDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		all, _ := w.share(t, maxApart)
		w.hang = true
		begin := time.Now()
		first, leave := context.WithCancel(t.Context())
		left, failed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := w.open(first, 3)
			left <- err
		}()
		synctest.Wait()
		go func() {
			_, err := w.open(t.Context(), 4)
			failed <- err
		}()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-left, context.Canceled)
		assert.Zero(t, time.Since(begin))
		require.ErrorIs(t, <-failed, context.DeadlineExceeded)
		assert.Equal(t, patience, time.Since(begin))
		w.hang = false
		again, err := w.open(t.Context(), 3)
		require.NoError(t, err)
		stop(append(all, again))
	})
}

func TestNobodyJoinsASilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		all, shared := w.share(t, maxApart+1)
		join := func(i int) {
			u, err := w.open(t.Context(), i)
			require.NoError(t, err)
			all = append(all, u)
		}
		time.Sleep(time.Minute)
		w.together[0].Modify(object(77, 1))
		synctest.Wait()
		LeaveIfSilent(shared[0], time.Second)
		join(4)
		require.Len(t, w.together, 1, "it is heard")
		time.Sleep(time.Second)
		LeaveIfSilent(shared[0], time.Second)
		join(5)
		require.Len(t, w.together, 2)
		LeaveIfSilent(shared[0], time.Second)
		LeaveIfSilent(all[0], time.Second)
		join(6)
		require.Len(t, w.together, 2, "it is another one")
		stop(all)
	})
}

func TestWatchesAreThoseOfAClient(t *testing.T) {
	clientOf := func(wrap ...func(http.RoundTripper) http.RoundTripper) rest.Interface {
		config := &rest.Config{Host: "localhost"}
		for _, w := range wrap {
			config.Wrap(w)
		}
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		return client.CoreV1().RESTClient()
	}
	wrapper := func(base http.RoundTripper) http.RoundTripper { return wrapped{base} }
	shares := clientOf(ShareWatches, wrapper)
	require.NotNil(t, WatchesOf(shares))
	assert.NotSame(t, WatchesOf(shares), WatchesOf(clientOf(ShareWatches)))
	assert.Nil(t, WatchesOf(clientOf(wrapper)))
	assert.Nil(t, WatchesOf((*rest.RESTClient)(nil)), "of a fake clientset")
}

type wrapped struct{ http.RoundTripper }

func (w wrapped) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }
