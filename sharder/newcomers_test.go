package sharder

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// ownersOf returns the owners of the objects of a prefix, by name.
func (w *world) ownersOf(prefix string, n int) map[string]string {
	owners := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("%s-%03d", prefix, i)
		o, err := w.kube.CoreV1().ConfigMaps("default").Get(w.t.Context(), name, metav1.GetOptions{})
		require.NoError(w.t, err)
		if r, ok := w.keys.RecordOf(o); ok && r.State == protocol.StateOwned && !w.keys.Draining(o) {
			owners[name] = r.Shard
		}
	}
	return owners
}

// A new object has a living owner within a second after a sharder leads, whichever others may be dead.
func TestANewObjectGetsALivingOwnerAtOnce(t *testing.T) {
	living := []string{"a", "b", "c"}
	requireLiving := func(t *testing.T, w *world, prefix string, n int) {
		t.Helper()
		owners := w.ownersOf(prefix, n)
		require.Len(t, owners, n)
		for _, owner := range owners {
			assert.Contains(t, living, owner)
		}
	}
	t.Run("the only shard and sharder has died", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			x := w.shard("x")
			stop := w.sharder(w.config())
			w.create(20, "old")
			time.Sleep(10 * time.Second)
			w.requirePlaced(20, "x")
			x.kill()
			stop()
			time.Sleep(5 * time.Second)
			for _, name := range living {
				w.shard(name)
			}
			kube, meta := w.clients(w.server.Client("next"))
			next, err := New(kube, meta, ringtest.TestMapper(), w.config())
			require.NoError(t, err)
			stopFollowing := next.follow(t.Context()) // a candidate does
			w.create(6, "new")
			time.Sleep(11 * time.Second)
			stopFollowing()
			w.begin(func(ctx context.Context) { assert.NoError(t, next.Run(ctx)) })
			time.Sleep(time.Second)
			requireLiving(t, w, "new", 6)
			for _, owner := range w.ownersOf("old", 20) {
				assert.Equal(t, "x", owner, "until it is proved dead")
			}
			time.Sleep(2*time.Second + 3*time.Second)
			w.create(6, "later")
			time.Sleep(time.Second)
			requireLiving(t, w, "later", 6)
			time.Sleep(time.Minute)
			w.requirePlaced(32, living...)
		})
	})
	t.Run("one shard has died", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			x := w.withX(w.config())
			x.kill()
			for i := range 12 { // it is silent for 10 s from the second one on
				time.Sleep(10 * time.Second)
				prefix := fmt.Sprint("new", i)
				w.create(10, prefix)
				time.Sleep(time.Second)
				if i > 0 {
					requireLiving(t, w, prefix, 10)
				}
			}
			w.requirePlaced(140, living...)
		})
	})
	t.Run("a shard returns", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			x := w.withX(w.config())
			x.connection.Inject(apisim.Faults{Refuse: apisim.Always})
			time.Sleep(17 * time.Second)
			w.create(20, "new")
			time.Sleep(time.Second)
			requireLiving(t, w, "new", 20)
			x.connection.Inject(apisim.Faults{})
			time.Sleep(30 * time.Second)
			w.requirePlaced(40, append(living, "x")...)
			assert.Len(t, w.storedHistory().Memberships, 1)
		})
	})
}

// withX has the shards a, b, c and x, with 20 objects. It returns x.
func (w *world) withX(c Config) (x *testShard) {
	for _, name := range []string{"a", "b", "c"} {
		w.shard(name)
	}
	x = w.shard("x")
	w.sharder(c)
	w.create(20, "old")
	time.Sleep(10 * time.Second)
	w.requirePlaced(20, "a", "b", "c", "x")
	return x
}

// withoutX is withX when x is silent, but not proved dead. It returns an object of x.
func (w *world) withoutX(c Config) (o *metav1.PartialObjectMetadata) {
	w.withX(c).kill()
	time.Sleep(15 * time.Second)
	for _, o := range w.objects() {
		if w.keys.ShardOf(&o) == "x" {
			return &o
		}
	}
	return nil
}

// requireNotGivenAway fails if an object gets another owner than x before x is proved dead.
func (w *world) requireNotGivenAway(o *metav1.PartialObjectMetadata) {
	w.t.Helper()
	for range 10 {
		time.Sleep(time.Second)
		now, err := w.meta.Resource(ringtest.ConfigMaps).Namespace("default").Get(w.t.Context(), o.Name,
			metav1.GetOptions{})
		require.NoError(w.t, err)
		if r, ok := w.keys.RecordOf(now); ok {
			require.Equal(w.t, "x", r.Shard)
		}
	}
	time.Sleep(2 * time.Minute)
	w.requirePlaced(20, "a", "b", "c")
}

// An object that somebody has stripped of its marks is not new: the shard that may be dead may work on it.
func TestAnObjectThatHasLostItsRecordIsNotNew(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		o := w.withoutX(w.config())
		w.strips(o)
		w.requireNotGivenAway(o)
	})
}

// Nor is it new because a proxy answers that there was no such object.
func TestAPageOfAProxyDoesNotProveThatAnObjectIsNew(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		o := w.withoutX(w.config())
		w.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.URL.Query().Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact) {
				return nil
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
				Body: io.NopCloser(strings.NewReader(
					`{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []}`)),
			}
		}})
		w.strips(o)
		w.requireNotGivenAway(o)
	})
}

// If an object that was assigned among the living loses its record, the next sharder must know of them.
func TestTheHistoryHasTheLivingAmongWhomNewObjectsAreAssigned(t *testing.T) {
	without := func(h protocol.History) bool {
		return slices.ContainsFunc(h.Memberships, func(m protocol.Membership) bool {
			return slices.Equal(m.Names(), []string{"a", "b", "c"})
		})
	}
	inWorld(t, func(t *testing.T, w *world) {
		w.withoutX(w.config())
		require.False(t, without(w.storedHistory()))
		w.told()
		w.create(20, "new")
		time.Sleep(time.Second)
		require.True(t, without(w.storedHistory()))
		for i := range 20 { // nothing is with another shard than its owner on the ring any more
			require.NoError(t, w.kube.CoreV1().ConfigMaps("default").Delete(t.Context(), fmt.Sprintf("new-%03d", i),
				metav1.DeleteOptions{}))
		}
		time.Sleep(5 * time.Second)
		require.Contains(t, w.told(), "settled [a b c x]")
		assert.True(t, without(w.storedHistory()))
		time.Sleep(2 * time.Minute)
		w.requirePlaced(20, "a", "b", "c")
		assert.Len(t, w.storedHistory().Memberships, 1)
	})
}
