package sharder

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func object(i int, version string) protocol.Root {
	return protocol.Root{Ref: protocol.Ref{Name: strconv.Itoa(i)}, Version: version}
}

func TestAQueueHoldsTheLatestVersionOfEachObjectOnce(t *testing.T) {
	q := newQueue(10, 4)
	defer q.watch(t.Context())()
	for _, version := range []string{"1", "2"} {
		require.True(t, q.offer(t.Context(), object(1, version), nil, false))
	}
	assert.Equal(t, 1, q.len())
	i, o, _ := q.take(t.Context(), true)
	assert.Equal(t, "2", o.(protocol.Root).Version)

	require.True(t, q.offer(t.Context(), object(1, "3"), nil, false), "while it is being worked on")
	q.done(i, true)
	i, o, _ = q.take(t.Context(), true)
	assert.Equal(t, "3", o.(protocol.Root).Version)
	q.done(i, true)
	assert.Zero(t, q.len())
}

// A change that comes while a worker decides to hold an object is not lost.
func TestAnObjectThatChangesWhileItBeginsToBeHeldIsNot(t *testing.T) {
	q := newQueue(10, 1)
	defer q.watch(t.Context())()
	before := object(1, "1")
	for _, version := range []string{"1", "2"} {
		require.True(t, q.offer(t.Context(), before, nil, false))
		i, _, _ := q.take(t.Context(), true)
		require.True(t, q.offer(t.Context(), object(1, version), nil, false))
		require.True(t, q.hold(i, heldError{until: time.Now().Add(time.Hour), unless: &before}))
		assert.Equal(t, version == "1", q.waits(before.Ref), "version %s", version)
		if version == "1" {
			require.True(t, q.offer(t.Context(), object(1, "2"), nil, false))
		}
		i, o, _ := q.take(t.Context(), true)
		assert.Equal(t, "2", o.(protocol.Root).Version)
		q.done(i, true)
	}
	assert.Zero(t, q.len())
}

func TestUnworkedObjectsComeBeforeDrains(t *testing.T) {
	q := newQueue(10, 4)
	defer q.watch(t.Context())()
	for n, slot := range []bool{true, false, true, false} {
		require.True(t, q.offer(t.Context(), object(n, ""), nil, slot))
	}
	var order []string
	for range 4 {
		i, _, _ := q.take(t.Context(), true)
		order = append(order, i.Name)
		q.done(i, true)
	}
	assert.Equal(t, []string{"1", "3", "0", "2"}, order)
}

// An object whose last attempt hung comes after all others, and only to the workers that take such
// objects. Whatever is offered meanwhile, others go on without it.
func TestWhatHungComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(10, 4)
		ctx, cancel := context.WithCancel(t.Context())
		defer q.watch(ctx)()
		require.True(t, q.offer(ctx, object(1, ""), nil, false))
		i, _, _ := q.take(ctx, false)
		i.hung = true
		require.True(t, q.retry(i, time.Now()))
		time.Sleep(maxBackoff)
		synctest.Wait()
		scan := newScanResult()
		require.True(t, q.offer(ctx, object(1, "2"), scan, false))
		assert.NoError(t, scan.wait(ctx))
		assert.True(t, q.waits(i.Ref))
		assert.Zero(t, q.busy())

		require.True(t, q.offer(ctx, object(2, ""), nil, true))
		other, _, _ := q.take(ctx, true)
		assert.Equal(t, "2", other.Name)
		q.done(other, true)
		taken := make(chan *item)
		go func() {
			i, _, _ := q.take(ctx, false)
			taken <- i
		}()
		synctest.Wait()
		assert.Empty(t, taken)
		i, latest, _ := q.take(ctx, true)
		assert.Equal(t, "1", i.Name)
		assert.Nil(t, latest, "it has to be read")
		assert.Equal(t, 1, q.busy())
		q.done(i, true)
		assert.Zero(t, q.busy())
		cancel()
		assert.Nil(t, <-taken)
	})
}

func TestWhatHangsLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, 4)
		defer q.watch(t.Context())()
		kept := 0
		for n := range 4 {
			q.offer(t.Context(), object(n, ""), nil, false)
			i, _, _ := q.take(t.Context(), false)
			i.hung = true
			if q.retry(i, time.Now()) {
				kept++
			}
			time.Sleep(maxBackoff)
			synctest.Wait()
		}
		assert.Equal(t, 2, kept)
		assert.Equal(t, 2, q.len())
	})
}

func TestWhoOffersWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, 4)
		defer q.watch(t.Context())()
		require.True(t, q.offer(t.Context(), object(1, ""), nil, false))
		require.True(t, q.offer(t.Context(), object(2, ""), nil, false))
		require.True(t, q.offer(t.Context(), object(2, "1"), nil, false), "is in the queue already")
		offered := make(chan bool)
		go func() { offered <- q.offer(t.Context(), object(3, ""), nil, false) }()
		synctest.Wait()
		assert.Empty(t, offered)
		i, _, _ := q.take(t.Context(), true)
		q.done(i, true)
		assert.True(t, <-offered)

		ctx, cancel := context.WithCancel(t.Context())
		go func() { offered <- q.offer(ctx, object(4, ""), nil, false) }()
		synctest.Wait()
		cancel()
		assert.False(t, <-offered)
	})
}

func TestWhoTakesWaitsUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, 4)
		ctx, cancel := context.WithCancel(t.Context())
		defer q.watch(ctx)()
		ended := make(chan struct{})
		go func() {
			i, _, _ := q.take(ctx, true)
			assert.Nil(t, i)
			close(ended)
		}()
		synctest.Wait()
		cancel()
		<-ended
	})
}

func TestRetriesComeLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, 4)
		defer q.watch(t.Context())()
		q.offer(t.Context(), object(1, "1"), nil, false)
		last := time.Duration(0)
		i, _, _ := q.take(t.Context(), true)
		for range 20 {
			began := time.Now()
			require.True(t, q.retry(i, began))
			var o subject
			i, o, _ = q.take(t.Context(), true)
			wait := time.Since(began)
			assert.GreaterOrEqual(t, wait, last)
			assert.Nil(t, o, "it has to be read")
			last = wait
		}
		assert.Equal(t, maxBackoff, last)
	})
}

func TestFailuresLeaveRoomForOthers(t *testing.T) {
	q := newQueue(4, 4)
	defer q.watch(t.Context())()
	kept := 0
	for n := range 4 {
		q.offer(t.Context(), object(n, ""), nil, false)
		i, _, _ := q.take(t.Context(), true)
		if q.retry(i, time.Now()) {
			kept++
		}
	}
	assert.Equal(t, 2, kept)
	assert.Equal(t, 2, q.len())
}

func TestAScanCountsTheResultsOfItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, 4)
		defer q.watch(t.Context())()
		scan := newScanResult()
		for n := range 3 {
			scan.count(protocol.Root{}, false)
			q.offer(t.Context(), object(n, ""), scan, false)
		}
		finished := make(chan error)
		go func() { finished <- scan.wait(t.Context()) }()
		for n := range 3 {
			synctest.Wait()
			assert.Empty(t, finished)
			i, _, _ := q.take(t.Context(), true)
			if n == 1 {
				q.retry(i, time.Now())
			} else {
				q.done(i, true)
			}
		}
		require.NoError(t, <-finished)
		assert.Equal(t, 3, scan.objects)
		assert.Equal(t, 2, scan.placed)
	})
}
