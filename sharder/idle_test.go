package sharder

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A shard in whose process nothing works on objects gets none until something does.
func TestAnIdleShardGetsNoObjects(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, _ := w.settledWith(30, w.config(), "a")
		defer stop()
		_, begin := w.idleShard("b")
		time.Sleep(10 * time.Minute)
		w.requirePlaced(30, "a")
		assert.Empty(t, w.told())
		begin()
		time.Sleep(time.Second)
		w.requirePlaced(30, "a", "b")
	})
}

// The objects of a shard that restarts wait for it, but not for ever.
func TestTheObjectsOfARestartedShardWaitUntilItWorks(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.returnWithin = 10 * time.Second
		stop, shards := w.settledWith(30, w.config(), "a", "b")
		defer stop()
		before := w.owners()
		shards[1].release()
		b, begin := w.idleShard("b")
		time.Sleep(20 * time.Second)
		assert.Equal(t, before["a"], w.owners()["a"], "none has moved")
		begin()
		time.Sleep(time.Second)
		w.requirePlaced(30, "a", "b")
		assert.Equal(t, before, w.owners())

		b.release()
		w.idleShard("b")
		time.Sleep(time.Minute + 2*time.Second)
		w.requirePlaced(30, "a")
	})
}

// If all are idle, nothing is assigned: it would wait anyway.
func TestARingOfIdleShardsWaits(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.sharder(w.config())
		defer stop()
		_, begin := w.idleShard("a")
		w.create(10, "o")
		time.Sleep(10 * time.Minute)
		assert.Empty(t, w.patched())
		begin()
		time.Sleep(time.Second)
		w.requirePlaced(10, "a")
	})
}
