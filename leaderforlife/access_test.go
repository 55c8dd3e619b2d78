package leaderforlife_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

func TestIndispensableVerbs(t *testing.T) {
	for _, missing := range []struct{ resource, verb, want string }{
		{"pods", "get", `not allowed to get pods a in namespace ns: grant the verb "get" on resource pods of API ` +
			`group ""`},
		{"configmaps", "get", `not allowed to get configmaps l in namespace ns: grant the verb "get" on resource ` +
			`configmaps of API group ""`},
		{"configmaps", "create", `not allowed to create configmaps l in namespace ns: grant the verb "create" on ` +
			`resource configmaps of API group ""`},
	} {
		t.Run(missing.verb+" "+missing.resource, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a := w.process(w.pod("a"))
				a.forbid(missing.resource, missing.verb)
				start := time.Now()
				a.start(w)
				err := a.returned()
				assert.ErrorContains(t, err, missing.want)
				assert.True(t, apierrors.IsForbidden(err), "a program can tell")
				assert.InDelta(t, 20*time.Second, time.Since(start), float64(10*time.Second),
					"roles may be on their way")
			})
		})
	}
}

// The consequence of a missing optional verb is logged once, and only if it stays missing.
func TestOptionalVerbs(t *testing.T) {
	for _, missing := range []struct{ resource, verb, consequence string }{
		{"pods", "list", "without the verb list on pods, this Pod may lead beside a leader whose lock was removed " +
			"before its Pod had ended"},
		{"pods", "patch", "without the verb patch on pods, another candidate may lead beside this Pod if its lock is " +
			"removed before the Pod has ended"},
	} {
		t.Run(missing.verb+" "+missing.resource, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				start := func(name string, finalizers ...string) *replica {
					p := w.process(w.pod(name, finalizers...))
					p.forbid(missing.resource, missing.verb)
					p.start(w)
					time.Sleep(10 * time.Second)
					return p
				}
				a := start("a", kubelet)
				require.Equal(t, []string{"a"}, w.leaders())
				assert.Len(t, a.logs.FilterMessage(missing.consequence).All(), 1)
				b := start("b")
				w.deleteForeground("a")
				time.Sleep(time.Hour)
				assert.Equal(t, []string{"a"}, w.leaders(), "who has seen the lock waits for its owner all the same")
				w.letGo("a")
				a.exit()
				time.Sleep(10 * time.Second)
				assert.Equal(t, []string{"b"}, w.leaders())
				assert.Len(t, b.logs.FilterMessage(missing.consequence).All(), 1)
			})
		})
	}
	t.Run("delete configmaps", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			a := w.start(w.pod("a"))
			require.Equal(t, []string{"a"}, w.leaders())
			b := w.process(w.pod("b"))
			var denied atomic.Bool
			denied.Store(true)
			b.forbidWhile(&denied, "configmaps", "delete")
			b.start(w)
			synctest.Wait()
			a.exit()
			w.setStatus("a", over(corev1.PodSucceeded, ""))
			time.Sleep(10 * time.Minute)
			require.Empty(t, w.leaders())
			assert.Equal(t, "a: it has ended, but its lock is still there", b.why())
			assert.Len(t, b.logs.FilterMessageSnippet("without the verb delete on configmaps").All(), 1)
			w.deletePod("a")
			w.server.Collect()
			require.Equal(t, []string{"b"}, w.leaders(), "the collector needs no rights of candidates")

			c := w.process(w.pod("c"))
			c.forbidWhile(&denied, "configmaps", "delete")
			c.start(w)
			synctest.Wait()
			w.setStatus("b", over(corev1.PodSucceeded, ""))
			time.Sleep(time.Minute)
			require.Equal(t, []string{"b"}, w.leaders())
			denied.Store(false)
			time.Sleep(10 * time.Second)
			require.Equal(t, []string{"b", "c"}, w.leaders(), "it is tried again")
		})
	})
}

// An API server that starts refuses everything for a moment. A candidate that believed it could
// lead beside another.
func TestRefusalOfAMomentDoesNotWeakenTheGuarantee(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.pod("a", kubelet))
		require.Equal(t, []string{"a"}, w.leaders())
		w.deleteForeground("a")
		b := w.process(w.pod("b"))
		var starting atomic.Bool
		starting.Store(true)
		b.forbidWhile(&starting, "pods", "list", "patch")
		b.start(w)
		time.Sleep(300 * time.Millisecond)
		starting.Store(false)
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a"}, w.leaders())
		assert.Empty(t, b.logs.FilterMessageSnippet("without the verb").All())
	})
}

// A candidate that may not label its Pod after all creates another lock.
func TestRightToPatchThatIsTakenAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.process(w.pod("a", kubelet))
		var denied atomic.Bool
		a.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
			if isA(r, "configmaps", "create") {
				denied.Store(true)
			}
			return nil, nil
		})
		a.forbidWhile(&denied, "pods", "patch")
		a.start(w)
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"a"}, w.leaders())
		assert.NotContains(t, w.lock().Annotations, "leader.bellwether.dev/labelled",
			"candidates must not rely on a label")
		w.start(w.pod("b"))
		synctest.Wait()
		w.deleteForeground("a")
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"a"}, w.leaders())
	})
}

func TestOutsideOfACluster(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	err := leader.Become(t.Context(), "my-lock")
	require.ErrorIs(t, err, leader.ErrNoNamespace)
	for _, advice := range []string{"WithNamespace", "WithPodName", "WithConfig or WithClient", "in a Pod"} {
		assert.ErrorContains(t, err, advice)
	}
	err = leader.Become(t.Context(), "my-lock", leader.WithNamespace("ns"))
	assert.ErrorContains(t, err, "leaderforlife: no client: ")
	assert.ErrorContains(t, err, "WithConfig or WithClient")
}

func TestBadOptionsAreRefused(t *testing.T) {
	err := leader.Become(t.Context(), "My_Lock",
		leader.WithNamespace("a.b"), leader.WithPodName("-"), leader.WithPollInterval(time.Millisecond))
	for _, want := range []string{
		`leaderforlife: lockName: `, `(got "My_Lock")`, `leaderforlife: WithNamespace: `, `(got "a.b")`,
		`leaderforlife: WithPodName: `,
		`leaderforlife: WithPollInterval: must be at least 100ms (got 1ms)`,
	} {
		assert.ErrorContains(t, err, want)
	}
	err = leader.Become(t.Context(), strings.Repeat("x", 64), leader.WithNamespace("ns"))
	assert.ErrorContains(t, err, "lockName: must be no more than 63", "it is the name of a label")
}
