package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
)

func TestEveryPatchOfAShardNamesTheObjectAndItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent ringtest.Preconditions
		w := newCluster(t)
		w.sniff = sent.Note
		o := w.create("x")
		assert.NoError(t, w.within(func(r *replica) {
			w.set("x", "a", false, nil) // which is sent back
			time.Sleep(time.Second)
			term, err := r.lease.Term()
			assert.NoError(t, err)
			w.set(
				"x", "a", true,
				&protocol.Record{
					UID: o.UID, Shard: "a", LeaseUID: term.Epoch().LeaseUID, Epoch: term.Epoch().Number,
					State: protocol.StateOwned,
				},
			)
			time.Sleep(time.Second)
			w.acknowledged("x")
			sent.Require(t, 2)
		}))
	})
}
