package sharder

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/transport"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
	"github.com/bellwether-k8s/bellwether/sharder/internal/ringtest"
)

// late maps the name of an object to a patch that the network holds back. The values are of type
// func() error.
type late = sync.Map

// patchLate returns a patch that has been sent and has not arrived. The first call of the function
// lets it arrive.
func (k *cluster) patchLate(client metadata.ResourceInterface, o metav1.Object, shard string,
	r *protocol.Record,
) func() error {
	return sync.OnceValue(func() error {
		_, err := client.Patch(k.t.Context(), o.GetName(), types.MergePatchType,
			k.keys.MergePatch(o.GetUID(), o.GetResourceVersion(), shard, false, r), metav1.PatchOptions{})
		return err
	})
}

// takenFromOwners returns a wrapper for the connection of a sharder. Just before a patch of a child
// arrives, the wrapper lets the late patch of its root arrive. It counts the children that the
// sharder takes from the owner of their root.
func (k *cluster) takenFromOwners(roots map[string]string, late *late) (
	wrap transport.WrapperFunc, taken *atomic.Int32,
) {
	taken = &atomic.Int32{}
	return func(next http.RoundTripper) http.RoundTripper {
		return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
			root := roots[path.Base(q.URL.Path)]
			if root == "" || !ringtest.IsPatch(q) {
				return next.RoundTrip(q)
			}
			if arrive, ok := late.Load(root); ok {
				_ = arrive.(func() error)()
			}
			before := k.objectOf(root)
			resp, err := next.RoundTrip(q)
			if err != nil || resp.StatusCode != http.StatusOK {
				return resp, err
			}
			child, err := k.meta.Resource(ringtest.Pods).Namespace("default").Get(k.t.Context(), path.Base(q.URL.Path),
				metav1.GetOptions{})
			require.NoError(k.t, err)
			r, owned := k.keys.RecordOf(before)
			if owned && r.Shard != "c" && r.State == protocol.StateOwned && k.keys.ShardOf(before) == r.Shard &&
				!k.keys.Draining(before) &&
				k.keys.ShardOf(child) != r.Shard {
				taken.Add(1)
			}
			return resp, nil
		})
	}, taken
}

// widowed returns the roots of shard c, and their only children by the name of the root. The shard
// has ended while no sharder ran.
func (k *cluster) widowed() (roots map[string]*metav1.PartialObjectMetadata,
	children map[string]*metav1.PartialObjectMetadata,
) {
	stop, shards := k.settledWith(30, k.familyConfig(), "a", "b", "c")
	k.bear(1, true)
	time.Sleep(10 * time.Minute)
	roots, children = map[string]*metav1.PartialObjectMetadata{}, map[string]*metav1.PartialObjectMetadata{}
	all := k.children()
	for _, name := range k.rootsOf("c") {
		roots[name] = k.objectOf(name)
		children[name] = &all[roots[name].UID][0]
	}
	require.NotEmpty(k.t, roots)
	stop()
	shards[2].release()
	time.Sleep(time.Minute)
	return roots, children
}

// with starts the next sharder, calls do, and waits for ten minutes. Then it fails unless the 30
// objects are with the given shards and each child is with its root.
func (k *cluster) with(wrap transport.WrapperFunc, do func(), shards ...string) {
	kube, meta := k.clients(k.server.Client("sharder"), wrap)
	s, err := New(kube, meta, ringtest.TestMapper(), k.familyConfig())
	require.NoError(k.t, err)
	defer k.begin(func(ctx context.Context) { assert.NoError(k.t, s.Run(ctx)) })()
	do()
	time.Sleep(10 * time.Minute)
	k.requirePlaced(30, shards...)
	k.requireFamilies(1)
}

// A root keeps its children until it is drained, even if a late patch of the former sharder assigns
// it. The network may hold the patch back until the next sharder has read the object.
func TestALateAssignmentKeepsTheChildrenOfItsRoot(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		roots, children := k.widowed()
		lease, err := k.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		parents, assignments := map[string]string{}, &late{}
		for name, root := range roots { // the former sharder has moved the children to a
			child := children[name]
			parents[child.Name] = name
			moved, err := k.meta.Resource(ringtest.Pods).Namespace("default").Patch(t.Context(), child.Name,
				types.MergePatchType, k.keys.MergePatch(child.UID, child.ResourceVersion, "a", false, nil),
				metav1.PatchOptions{})
			require.NoError(t, err)
			assignments.Store(name, k.patchLate(k.meta.Resource(ringtest.ConfigMaps).Namespace("default"), root, "a",
				&protocol.Record{
					UID: root.UID, Shard: "a", LeaseUID: lease.UID, Epoch: 1, State: protocol.StateOwned,
					ChildFloor: map[string]string{"pods": moved.ResourceVersion},
				}))
		}
		wrap, taken := k.takenFromOwners(parents, assignments)
		k.with(wrap, func() {}, "a", "b")
		assert.Zero(t, taken.Load(), "children that were taken from their root's shard")
	})
}

// The API server refuses a late patch of a child. A child that is with the right shard when its
// root is assigned stays there.
func TestALatePatchOfAChildIsRefused(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		roots, children := k.widowed()
		moves := map[string]func() error{}
		for name := range roots { // the former sharder moved the children to b; its patch to a is late
			child := children[name]
			pods := k.meta.Resource(ringtest.Pods).Namespace("default")
			moved, err := pods.Patch(t.Context(), child.Name, types.MergePatchType,
				k.keys.MergePatch(child.UID, child.ResourceVersion, "b", false, nil), metav1.PatchOptions{})
			require.NoError(t, err)
			moves[name] = k.patchLate(pods, moved, "a", nil)
		}
		k.with(func(next http.RoundTripper) http.RoundTripper { return next }, func() {}, "a", "b")
		for name, arrive := range moves {
			assert.True(t, apierrors.IsConflict(arrive()), name)
		}
	})
}

// A watch of the sharder is late, and shows a root as it was when no shard had it. By now it has an
// owner, and belongs to another shard. Its owner keeps the children until it has let go.
func TestALateEventOfARootMovesNoChild(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, shards := k.settledWith(30, k.familyConfig(), "a", "b")
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		stop()
		kube, meta := k.clients(k.server.Client("sharder"), k.proxy)
		s, err := New(kube, meta, ringtest.TestMapper(), k.familyConfig())
		require.NoError(t, err)
		e, err := s.open(t.Context(), false)
		require.NoError(t, err)
		defer k.begin(func(ctx context.Context) { assert.NoError(t, e.run(ctx)) })()
		time.Sleep(10 * time.Minute) // the ring is settled
		var late []protocol.Root
		for _, name := range k.rootsOf("a") {
			k.edit(name, `{"data":{"edited":"after the session began"}}`)
			v, ok := e.objects.rootOf(0, k.objectOf(name))
			require.True(t, ok)
			v.Label, v.Record.State = "", protocol.StateFree
			late = append(late, v)
		}
		shards[0].stubborn.Store(true)
		k.shard("c")
		time.Sleep(2 * time.Second)
		for _, v := range late {
			require.True(t, e.queue.offer(t.Context(), v, nil, false))
		}
		time.Sleep(10 * time.Second)
		drained := 0
		for _, name := range k.rootsOf("a") {
			if o := k.objectOf(name); k.keys.Draining(o) {
				drained++
				assert.Equal(t, "a", k.keys.ShardOf(&k.children()[o.UID][0]), name)
			}
		}
		require.NotZero(t, drained)
		shards[0].stubborn.Store(false)
		time.Sleep(time.Minute)
		k.requirePlaced(30, "a", "b", "c")
		k.requireFamilies(1)
	})
}

// A shard does not lose sight of the children of a root when a user removes the record of the root.
// The shard may still work on the root. The sharder gives the children other versions, because
// patches of the former sharder may be late. Meanwhile the children keep the label of the shard.
func TestAShardDoesNotLoseSightOfTheChildrenOfAStrippedRoot(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		stop, _ := k.settledWith(30, k.familyConfig(), "a", "b")
		k.bear(1, true)
		time.Sleep(10 * time.Minute)
		stop()
		var lost, written atomic.Int32
		k.server.Observe(func(c apisim.Change) {
			if c.Before == nil || c.After == nil || c.After.GetKind() != "Pod" {
				return
			}
			written.Add(1)
			if k.keys.ShardOf(c.Before) != k.keys.ShardOf(c.After) {
				lost.Add(1)
			}
		})
		k.with(func(next http.RoundTripper) http.RoundTripper { return next }, func() {
			time.Sleep(time.Minute)
			for _, o := range k.objects() {
				k.strips(&o)
			}
		}, "a", "b")
		assert.Positive(t, written.Load(), "patches of children")
		assert.Zero(t, lost.Load(), "children that their shard has lost sight of")
	})
}

// A root keeps its children even if a late patch of this session assigns it. The session does not
// know the outcome of that patch.
func TestALateAssignmentOfThisSessionKeepsTheChildrenOfItsRoot(t *testing.T) {
	inCluster(t, func(t *testing.T, k *cluster) {
		roots, children := k.widowed()
		parents, assignments := map[string]string{}, &late{}
		for name := range roots {
			parents[children[name].Name] = name
		}
		wrap, taken := k.takenFromOwners(parents, assignments)
		first := make(chan struct{})
		begun := sync.OnceFunc(func() { close(first) })
		k.with(func(next http.RoundTripper) http.RoundTripper {
			judged := wrap(next)
			return ringtest.RoundTripper(func(q *http.Request) (*http.Response, error) {
				name := path.Base(q.URL.Path)
				if _, known := assignments.Load(name); known || roots[name] == nil || !ringtest.IsPatch(q) {
					return judged.RoundTrip(q)
				}
				body, err := io.ReadAll(q.Body)
				require.NoError(t, err)
				q.Body = io.NopCloser(bytes.NewReader(body))
				if !bytes.Contains(body, []byte(`owned`)) {
					return judged.RoundTrip(q)
				}
				held := q.Clone(context.WithoutCancel(q.Context()))
				held.Body = io.NopCloser(bytes.NewReader(body))
				assignments.Store(name, sync.OnceValue(func() error {
					resp, err := next.RoundTrip(held)
					if err == nil {
						err = resp.Body.Close()
					}
					return err
				}))
				begun()
				return nil, io.ErrUnexpectedEOF
			})
		}, func() {
			<-first
			k.shard("d") // some of the roots belong to it
		}, "a", "b", "d")
		assert.Zero(t, taken.Load(), "children that were taken from their root's shard")
	})
}
