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
func (k *cluster) ownersOf(prefix string, n int) map[string]string {
	owners := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("%s-%03d", prefix, i)
		o, err := k.kube.CoreV1().ConfigMaps("default").Get(k.t.Context(), name, metav1.GetOptions{})
		require.NoError(k.t, err)
		if r, ok := k.keys.RecordOf(o); ok && r.State == protocol.StateOwned && !k.keys.Draining(o) {
			owners[name] = r.Shard
		}
	}
	return owners
}

// A new object has a living owner within a second after a sharder leads, whichever others may be dead.
func TestANewObjectGetsALivingOwnerAtOnce(t *testing.T) {
	living := []string{"a", "b", "c"}
	requireLiving := func(t *testing.T, k *cluster, prefix string, n int) {
		t.Helper()
		owners := k.ownersOf(prefix, n)
		require.Len(t, owners, n)
		for _, owner := range owners {
			assert.Contains(t, living, owner)
		}
	}
	t.Run("the only shard and sharder has died", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			x := k.shard("x")
			stop := k.sharder(k.config())
			k.create(20, "old")
			time.Sleep(10 * time.Second)
			k.requirePlaced(20, "x")
			x.kill()
			stop()
			time.Sleep(5 * time.Second)
			for _, name := range living {
				k.shard(name)
			}
			kube, meta := k.clients(k.server.Client("next"))
			next, err := New(kube, meta, ringtest.TestMapper(), k.config())
			require.NoError(t, err)
			stopFollowing := next.follow(t.Context()) // a candidate does
			k.create(6, "new")
			time.Sleep(11 * time.Second)
			stopFollowing()
			k.begin(func(ctx context.Context) { assert.NoError(t, next.Run(ctx)) })
			time.Sleep(time.Second)
			requireLiving(t, k, "new", 6)
			for _, owner := range k.ownersOf("old", 20) {
				assert.Equal(t, "x", owner, "until it is proved dead")
			}
			time.Sleep(2*time.Second + 3*time.Second)
			k.create(6, "later")
			time.Sleep(time.Second)
			requireLiving(t, k, "later", 6)
			time.Sleep(time.Minute)
			k.requirePlaced(32, living...)
		})
	})
	t.Run("one shard has died", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			x := k.withX(k.config())
			x.kill()
			for i := range 12 { // it is silent for 10 s from the second one on
				time.Sleep(10 * time.Second)
				prefix := fmt.Sprint("new", i)
				k.create(10, prefix)
				time.Sleep(time.Second)
				if i > 0 {
					requireLiving(t, k, prefix, 10)
				}
			}
			k.requirePlaced(140, living...)
		})
	})
	t.Run("a shard returns", func(t *testing.T) {
		inCluster(t, func(t *testing.T, k *cluster) {
			x := k.withX(k.config())
			x.connection.Inject(apisim.Faults{Refuse: apisim.Always})
			time.Sleep(17 * time.Second)
			k.create(20, "new")
			time.Sleep(time.Second)
			requireLiving(t, k, "new", 20)
			x.connection.Inject(apisim.Faults{})
			time.Sleep(30 * time.Second)
			k.requirePlaced(40, append(living, "x")...)
			assert.Len(t, k.storedHistory().Memberships, 1)
		})
	})
}

// withX has the shards a, b, c and x, with 20 objects. It returns x.
func (k *cluster) withX(c Config) (x *testShard) {
	for _, name := range []string{"a", "b", "c"} {
		k.shard(name)
	}
	x = k.shard("x")
	k.sharder(c)
	k.create(20, "old")
	time.Sleep(10 * time.Second)
	k.requirePlaced(20, "a", "b", "c", "x")
	return x
}

// withoutX is withX when x is silent, but not proved dead. It returns an object of x.
func (k *cluster) withoutX(c Config) (o *metav1.PartialObjectMetadata) {
	k.withX(c).kill()
	time.Sleep(15 * time.Second)
	for _, o := range k.objects() {
		if k.keys.ShardOf(&o) == "x" {
			return &o
		}
	}
	return nil
}

// requireNotGivenAway fails if an object gets another owner than x before x is proved dead.
func (k *cluster) requireNotGivenAway(o *metav1.PartialObjectMetadata) {
	k.t.Helper()
	for range 10 {
		time.Sleep(time.Second)
		now, err := k.meta.Resource(ringtest.ConfigMaps).Namespace("default").Get(k.t.Context(), o.Name,
			metav1.GetOptions{})
		require.NoError(k.t, err)
		if r, ok := k.keys.RecordOf(now); ok {
			require.Equal(k.t, "x", r.Shard)
		}
	}
	time.Sleep(2 * time.Minute)
	k.requirePlaced(20, "a", "b", "c")
}

// An object that somebody has stripped of its marks is not new: the shard that may be dead may work on it.
func TestAnObjectThatHasLostItsRecordIsNotNew(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		o := k.withoutX(k.config())
		k.strips(o)
		k.requireNotGivenAway(o)
	})
}

// Nor is it new because a proxy answers that there was no such object.
func TestAPageOfAProxyDoesNotProveThatAnObjectIsNew(t *testing.T) {
	inCluster(t, func(_ *testing.T, k *cluster) {
		o := k.withoutX(k.config())
		k.connection.Inject(apisim.Faults{Odd: func(q *http.Request) *http.Response {
			if q.URL.Query().Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchExact) {
				return nil
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: q,
				Body: io.NopCloser(strings.NewReader(
					`{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": []}`)),
			}
		}})
		k.strips(o)
		k.requireNotGivenAway(o)
	})
}

// If an object that was assigned among the living loses its record, the next sharder must know of them.
func TestTheHistoryHasTheLivingAmongWhomNewObjectsAreAssigned(t *testing.T) {
	without := func(h protocol.History) bool {
		return slices.ContainsFunc(h.Memberships, func(m protocol.Membership) bool {
			return slices.Equal(m.Names(), []string{"a", "b", "c"})
		})
	}
	inCluster(t, func(t *testing.T, k *cluster) {
		k.withoutX(k.config())
		require.False(t, without(k.storedHistory()))
		k.told()
		k.create(20, "new")
		time.Sleep(time.Second)
		require.True(t, without(k.storedHistory()))
		for i := range 20 { // nothing is with another shard than its owner on the ring any more
			require.NoError(t, k.kube.CoreV1().ConfigMaps("default").Delete(t.Context(), fmt.Sprintf("new-%03d", i),
				metav1.DeleteOptions{}))
		}
		time.Sleep(10 * time.Second) // a scan follows after 1, 2 or 4 s
		require.Contains(t, k.told(), "settled [a b c x]")
		assert.True(t, without(k.storedHistory()))
		time.Sleep(2 * time.Minute)
		k.requirePlaced(20, "a", "b", "c")
		assert.Len(t, k.storedHistory().Memberships, 1)
	})
}
