package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A shard that lets go of an object hands it to its successor if the sharder named one and nothing
// else must happen first.
func TestAShardGivesAnObjectToWhoIsNext(t *testing.T) {
	b := protocol.OwnerEpoch{Shard: "b", LeaseUID: "lease-b", Epoch: 7}
	ordered := func(r *replica, o metav1.Object) *protocol.Record {
		rec := r.owned(o)
		rec.Next = &b
		return rec
	}
	for name, test := range map[string]struct {
		config Config
		drain  func(r *replica, o metav1.Object)
		freed  bool
	}{
		"": {drain: func(r *replica, o metav1.Object) { r.set("x", "a", true, ordered(r, o)) }},
		"somebody else sets the drain label": {freed: true, drain: func(r *replica, o metav1.Object) {
			r.set("x", "a", false, ordered(r, o))
			synctest.Wait()
			r.set("x", "a", true, nil)
		}},
		"others have to be asked": {freed: true, drain: func(r *replica, o metav1.Object) {
			rec := ordered(r, o)
			rec.Left = []protocol.OwnerEpoch{{Shard: "c", LeaseUID: "lease-c", Epoch: 1}}
			r.set("x", "a", true, rec)
		}},
		"it may have children": {
			config: Config{
				Resources: []api.Resource{{
					GVR:      ringtest.ConfigMaps,
					Children: []schema.GroupVersionResource{ringtest.Pods},
				}},
			},
			freed: true,
			drain: func(r *replica, o metav1.Object) { r.set("x", "a", true, ordered(r, o)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCluster(t)
				assert.NoError(t, w.replica(test.config).run(func(r *replica) {
					w.create("x")
					o := r.assign("x")
					end := r.work(o)
					test.drain(r, o)
					time.Sleep(time.Second)
					w.drainedStill("x")
					assert.ErrorIs(t, r.do(o), ErrNotYet)
					require.NoError(t, end())
					synctest.Wait()
					if test.freed {
						w.acknowledged("x")
						return
					}
					got := w.get("x")
					assert.Equal(t, "b", got.Labels[w.keys.Shard])
					assert.NotContains(t, got.Labels, w.keys.Drain)
					rec, ok := w.keys.RecordOf(got)
					assert.True(t, ok)
					assert.Equal(
						t, protocol.Record{
							UID: o.UID, Shard: "b", LeaseUID: b.LeaseUID, Epoch: b.Epoch,
							State: protocol.StateOwned,
						}, rec,
					)
					assert.ErrorIs(t, r.do(o), ErrNotMine)
					assert.Empty(t, r.remembered(), "all caches have passed the floor")
					assert.Equal(t, []string{"drain x"}, r.hooks())
				}))
			})
		})
	}
}
