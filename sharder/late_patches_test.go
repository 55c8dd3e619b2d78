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

// late holds, by the name of their object, patches that the network holds back: func() error.
type late = sync.Map

// patchLate returns the request for a patch that has been sent, and has not arrived.
func (w *world) patchLate(client metadata.ResourceInterface, o metav1.Object, shard string,
	r *protocol.Record,
) func() error {
	return sync.OnceValue(func() error {
		_, err := client.Patch(w.t.Context(), o.GetName(), types.MergePatchType,
			w.keys.MergePatch(o.GetUID(), o.GetResourceVersion(), shard, false, r), metav1.PatchOptions{})
		return err
	})
}

// takenFromOwners returns a wrapper for the connection of a sharder. Just before a patch of a child
// arrives, it lets the late patch of its root arrive. It counts the children that are taken from
// the shard that owns their root.
func (w *world) takenFromOwners(roots map[string]string, late *late) (wrap transport.WrapperFunc, taken *atomic.Int32) {
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
			before := w.objectOf(root)
			resp, err := next.RoundTrip(q)
			if err != nil || resp.StatusCode != http.StatusOK {
				return resp, err
			}
			child, err := w.meta.Resource(ringtest.Pods).Namespace("default").Get(w.t.Context(), path.Base(q.URL.Path),
				metav1.GetOptions{})
			require.NoError(w.t, err)
			r, owned := w.keys.RecordOf(before)
			if owned && r.Shard != "c" && r.State == protocol.StateOwned && w.keys.ShardOf(before) == r.Shard &&
				!w.keys.Draining(before) &&
				w.keys.ShardOf(child) != r.Shard {
				taken.Add(1)
			}
			return resp, nil
		})
	}, taken
}

// widowed returns the roots of a shard that has ended while there is no sharder, and their only
// children.
func (w *world) widowed() (roots map[string]*metav1.PartialObjectMetadata,
	children map[string]*metav1.PartialObjectMetadata,
) {
	stop, shards := w.settledWith(30, w.familyConfig(), "a", "b", "c")
	w.bear(1, true)
	time.Sleep(10 * time.Minute)
	roots, children = map[string]*metav1.PartialObjectMetadata{}, map[string]*metav1.PartialObjectMetadata{}
	all := w.children()
	for _, name := range w.rootsOf("c") {
		roots[name] = w.objectOf(name)
		children[name] = &all[roots[name].UID][0]
	}
	require.NotEmpty(w.t, roots)
	stop()
	shards[2].release()
	time.Sleep(time.Minute)
	return roots, children
}

// with runs the next sharder for ten minutes after it has done something.
func (w *world) with(wrap transport.WrapperFunc, do func(), shards ...string) {
	kube, meta := w.clients(w.server.Client("sharder"), wrap)
	s, err := New(kube, meta, ringtest.TestMapper(), w.familyConfig())
	require.NoError(w.t, err)
	defer w.begin(func(ctx context.Context) { assert.NoError(w.t, s.Run(ctx)) })()
	do()
	time.Sleep(10 * time.Minute)
	w.requirePlaced(30, shards...)
	w.requireFamilies(1)
}

// The network may hold a patch of the former sharder back until the next one has read the object. A
// root that such a patch assigns keeps its children until it is drained.
func TestALateAssignmentKeepsTheChildrenOfItsRoot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		roots, children := w.widowed()
		lease, err := w.kube.CoordinationV1().Leases(testNamespace).Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		parents, assignments := map[string]string{}, &late{}
		for name, root := range roots { // the former sharder has moved the children to a
			child := children[name]
			parents[child.Name] = name
			moved, err := w.meta.Resource(ringtest.Pods).Namespace("default").Patch(t.Context(), child.Name,
				types.MergePatchType, w.keys.MergePatch(child.UID, child.ResourceVersion, "a", false, nil),
				metav1.PatchOptions{})
			require.NoError(t, err)
			assignments.Store(name, w.patchLate(w.meta.Resource(ringtest.ConfigMaps).Namespace("default"), root, "a",
				&protocol.Record{
					UID: root.UID, Shard: "a", LeaseUID: lease.UID, Epoch: 1, State: protocol.StateOwned,
					ChildFloor: map[string]string{"pods": moved.ResourceVersion},
				}))
		}
		wrap, taken := w.takenFromOwners(parents, assignments)
		w.with(wrap, func() {}, "a", "b")
		assert.Zero(t, taken.Load(), "children that were taken from their root's shard")
	})
}

// The same for a patch of a child: one that was with the right shard when the root was assigned
// stays there.
func TestALatePatchOfAChildIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		roots, children := w.widowed()
		moves := map[string]func() error{}
		for name := range roots { // the former sharder has moved the children to b, and then wanted them with a
			child := children[name]
			pods := w.meta.Resource(ringtest.Pods).Namespace("default")
			moved, err := pods.Patch(t.Context(), child.Name, types.MergePatchType,
				w.keys.MergePatch(child.UID, child.ResourceVersion, "b", false, nil), metav1.PatchOptions{})
			require.NoError(t, err)
			moves[name] = w.patchLate(pods, moved, "a", nil)
		}
		w.with(func(next http.RoundTripper) http.RoundTripper { return next }, func() {}, "a", "b")
		for name, arrive := range moves {
			assert.True(t, apierrors.IsConflict(arrive()), name)
		}
	})
}

// Somebody removes the record of roots while their shard works on them, and it may not know yet. The
// children get other versions, because patches of the former sharder may be late, and yet the shard
// keeps them in sight.
func TestAShardDoesNotLoseSightOfTheChildrenOfAStrippedRoot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop, _ := w.settledWith(30, w.familyConfig(), "a", "b")
		w.bear(1, true)
		time.Sleep(10 * time.Minute)
		stop()
		var lost, written atomic.Int32
		w.server.Observe(func(c apisim.Change) {
			if c.Before == nil || c.After == nil || c.After.GetKind() != "Pod" {
				return
			}
			written.Add(1)
			if w.keys.ShardOf(c.Before) != w.keys.ShardOf(c.After) {
				lost.Add(1)
			}
		})
		w.with(func(next http.RoundTripper) http.RoundTripper { return next }, func() {
			time.Sleep(time.Minute)
			for _, o := range w.objects() {
				w.strips(&o)
			}
		}, "a", "b")
		assert.Positive(t, written.Load(), "patches of children")
		assert.Zero(t, lost.Load(), "children that their shard has lost sight of")
	})
}

// A patch may arrive late that this session has sent: its outcome was unknown.
func TestALateAssignmentOfThisSessionKeepsTheChildrenOfItsRoot(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		roots, children := w.widowed()
		parents, assignments := map[string]string{}, &late{}
		for name := range roots {
			parents[children[name].Name] = name
		}
		wrap, taken := w.takenFromOwners(parents, assignments)
		first := make(chan struct{})
		begun := sync.OnceFunc(func() { close(first) })
		w.with(func(next http.RoundTripper) http.RoundTripper {
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
			w.shard("d") // some of the roots belong to it
		}, "a", "b", "d")
		assert.Zero(t, taken.Load(), "children that were taken from their root's shard")
	})
}
