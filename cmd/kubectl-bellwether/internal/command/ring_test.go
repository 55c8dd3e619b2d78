package command_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/cmd/kubectl-bellwether/internal/cluster"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// settledRing is a ring of two shards with eight objects.
func (w *world) settledRing() (a, b *shardOf) {
	a = w.replica("a", nil)
	w.after(time.Second)
	b = w.replica("b", nil)
	w.configMaps(8)
	w.after(20 * time.Second)
	return a, b
}

// A user who may list a resource in the ring's namespace only sees what is there, and reads why.
func TestObjectsAreLookedForWhereTheyMayBeRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		w.forbidden["list configmaps "] = true // in all namespaces
		w.forbidden["list pods"] = true
		out := w.require("ring", "checksums")
		assert.Equal(t, []string{"configmaps 8 0"}, lines(out, "configmaps"), out)
		assert.Contains(t, out, "Only in namespace ns, because you may not list them cluster-wide: configmaps.")
		assert.Contains(t, out, "Not looked for, because you may not list them: pods.")
		out = w.require("ring", "checksums", "--resource=configmaps", "--object-namespace=ns")
		assert.NotContains(t, out, "you may not list them")
		assert.Equal(t, []string{"configmaps 8 0"}, lines(out, "configmaps"), out)
		assert.Empty(t, w.writes)
	})
}

// A 404 does not say that a resource has no objects.
func TestObjectsOfAResourceThatIsNotFoundMayExist(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		w.odd = func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/pods") {
				return apisim.Oddities[1](r) // the API server does not serve them
			}
			return nil
		}
		assert.Contains(t, w.require("ring", "checksums"), "Not found by the API server, which has named them: pods.")
		_, err := w.kubectl("ring", "checksums", "--resource=pods")
		assert.ErrorContains(t, err, "list pods")
		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "there may be objects of the ring in pods, which the API server has named and "+
			"does not find")
		assert.Empty(t, w.writes)
		w.require("uninstall", "checksums", "--confirm", "--resource=configmaps")
		assert.Empty(t, w.left())
	})
}

// Nor does it when a removal looks for what it has left.
func TestUninstallSaysWhatItHasNotVerified(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		var deleted atomic.Bool
		w.odd = func(r *http.Request) *http.Response {
			if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/checksums-sharder") {
				deleted.Store(true)
			}
			if deleted.Load() && strings.HasSuffix(r.URL.Path, "/pods") {
				return apisim.Oddities[1](r)
			}
			return nil
		}
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, `the API server does not find ["pods"]`)
		assert.Empty(t, w.left())
	})
}

func TestChildrenFollowTheirRoots(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		root, err := w.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "x0", metav1.GetOptions{})
		require.NoError(t, err)
		owner := root.Labels[api.ShardLabel("checksums")]
		require.NotEmpty(t, owner)
		_, err = w.kube.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "child", Labels: map[string]string{api.ShardLabel("checksums"): owner},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(root,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		out := w.require("explain", "pod", "child")
		assert.Equal(t, []string{"follows configmaps/x0 in namespace ns"}, lines(out, "follows"), out)
		assert.Equal(t, []string{"owner " + owner + " (Ready), in epoch 1"}, lines(out, "owner"), out)
		out = w.require("ring", "checksums")
		assert.Equal(t, []string{"pods 0 1"}, lines(out, "pods"), out)

		plain := metav1.NewControllerRef(root, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		plain.Controller = nil // so it is a child of its only owner
		_, err = w.kube.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "owned", Labels: map[string]string{api.ShardLabel("checksums"): owner},
			OwnerReferences: []metav1.OwnerReference{*plain},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		out = w.require("explain", "pod", "owned")
		assert.Equal(t, []string{"follows configmaps/x0 in namespace ns"}, lines(out, "follows"), out)
		out = w.require("ring", "checksums")
		assert.Equal(t, []string{"pods 0 2"}, lines(out, "pods"), out)
		assert.Empty(t, w.writes)
	})
}

// An object that the ring should have and that no shard has had is found if the resource is named.
func TestNewObjectsWithoutASharder(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		w.configMap("new")
		out := w.require("orphans", "checksums", "-o", "json")
		var printed struct {
			Orphans []struct{ Name, Why string }
		}
		require.NoError(t, json.Unmarshal([]byte(out), &printed))
		assert.Len(t, printed.Orphans, 8, out)
		out = w.require("orphans", "checksums", "--resource=configmaps", "--selector=")
		assert.Equal(t, []string{"ns configmaps/new no shard has had it yet"}, lines(out, "ns", "configmaps/new"), out)
		out = w.require("explain", "configmap/new", "--ring=checksums")
		assert.Equal(t, []string{"owner none: it has no valid record"}, lines(out, "owner"), out)
		assert.Empty(t, lines(out, "waits for a"))
		assert.Contains(t, out, "a shard: the ring has none")
		assert.Empty(t, w.writes)
	})
}

func TestWrongArguments(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		w.configMap("other")
		for _, c := range []struct {
			args []string
			err  string
		}{
			{[]string{"ring"}, "accepts 1 arg"},
			{[]string{"uninstall", "checksums", "-o", "jsn"}, "--output: must be json, yaml or wide"},
			{[]string{"ring", "checksums", "--resource=widgets", "-o", "jsn"}, "--output: must be json, yaml or wide"},
			{[]string{"ring", "other"}, "no Lease of a shard of this ring: other in namespace ns"},
			{[]string{"ring", "checksums", "--selector=a=b"}, "--selector: needs --resource"},
			{[]string{"ring", "checksums", "--resource=widgets"}, `resource "widgets"`},
			{[]string{"plan", "checksums"}, "needs --without or --with"},
			{[]string{"plan", "checksums", "--without=c"}, "shard c is no member of ring checksums"},
			{[]string{"plan", "checksums", "--with=c", "--key=name"}, "--key: must be object or namespace"},
			{[]string{"explain", "configmap"}, "needs RESOURCE/NAME"},
			{[]string{"explain", "configmap/gone"}, "not found"},
			{[]string{"explain", "configmap/checksums.ring.bellwether.dev"}, "has no label of a ring"},
			{[]string{"explain", "configmap/x0", "--ring=other"}, "no Lease of a shard of this ring"},
		} {
			_, err := w.kubectl(c.args...)
			assert.ErrorContains(t, err, c.err, "%q", c.args)
		}
		_, err := w.kubectl("plan", "other", "--with=c")
		assert.ErrorIs(t, err, cluster.ErrNoRing)
		assert.Empty(t, w.writes)
	})
}

// A plan that assumes another key than the ring has says so.
func TestAPlanWithAnotherKeySaysSo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		assert.NotContains(t, w.require("plan", "checksums", "--with=c"), "Warning")
		assert.Contains(t, w.require("plan", "checksums", "--with=c", "--key=namespace"), "are not with their owner")
	})
}
