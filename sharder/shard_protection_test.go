package sharder

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEveryPatchOfAShardNamesTheObjectAndItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent preconditions
		w := newTerritory(t)
		w.sniff = sent.note
		o := w.create("x")
		assert.NoError(t, w.within(func(r *replica) {
			w.set("x", "a", false, nil) // which is sent back
			time.Sleep(time.Second)
			term, err := r.lease.Term()
			assert.NoError(t, err)
			w.set("x", "a", true, &record{UID: o.UID, Shard: "a", LeaseUID: term.Epoch().LeaseUID, Epoch: term.Epoch().Number, State: owned})
			time.Sleep(time.Second)
			w.acknowledged("x")
			sent.require(t, 2)
		}))
	})
}
