package command_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// left returns what the namespace still has of the ring.
func (w *world) left() (left []string) {
	leases, err := w.kube.CoordinationV1().Leases("ns").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	for _, l := range leases.Items {
		left = append(left, "lease/"+l.Name)
	}
	maps, err := w.kube.CoreV1().ConfigMaps("ns").List(w.t.Context(), metav1.ListOptions{})
	require.NoError(w.t, err)
	for _, m := range maps.Items {
		if strings.HasSuffix(m.Name, "bellwether.dev") ||
			strings.Contains(fmt.Sprint(m.Labels, m.Annotations), "bellwether") {
			left = append(left, "configmap/"+m.Name)
		}
	}
	return left
}

func TestUninstallLeavesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		before := w.left()
		out := w.require("uninstall", "checksums")
		assert.Contains(t, out, "Nothing was changed.")
		assert.Equal(t, []string{"configmaps labels and records of 8"}, lines(out, "configmaps"), out)
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)

		out = w.require("uninstall", "checksums", "--confirm")
		assert.Contains(t, out, "Ring checksums is removed.")
		assert.Empty(t, w.left())
		objects, err := w.kube.CoreV1().ConfigMaps("ns").List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, objects.Items, 8, "the objects stay")

		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "no Lease of a shard of this ring")

		w.replica("a", nil) // the ring can be used again
		w.after(20 * time.Second)
		assert.Contains(t, w.require("ring", "checksums"), "ORPHANS (0)")
	})
}

// A run that fails is run again, and continues, wherever it has failed. A 404 that is not of the API
// server does not pass for the end of what it has asked to delete.
func TestUninstallContinues(t *testing.T) {
	const history, shard, election = "configmaps/checksums.ring.bellwether.dev", "leases/b", "leases/checksums-sharder"
	for _, last := range []string{history, shard, election} {
		for name, answer := range map[string]apisim.Oddity{
			"404 of a proxy": apisim.Oddities[0], "403 of a proxy": apisim.Oddities[2],
		} {
			t.Run(last+", "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					a, b := w.settledRing()
					a.stop()
					b.stop()
					w.odd = func(r *http.Request) *http.Response {
						if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, last) {
							return answer(r)
						}
						return nil
					}
					_, err := w.kubectl("uninstall", "checksums", "--confirm")
					require.Error(t, err)
					left := w.left()
					assert.Contains(t, left, "lease/checksums-sharder")
					w.odd = nil
					assert.Contains(t, w.require("uninstall", "checksums"), "checksums-sharder")
					assert.Equal(t, left, w.left())
					w.require("uninstall", "checksums", "--confirm")
					assert.Empty(t, w.left())
				})
			})
		}
	}
}

// Shards that the history names may be at work on objects without a record.
func TestUninstallOfARingThatHasOnlyAHistory(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		for _, name := range []string{"a", "b", "checksums-sharder"} {
			require.NoError(t, w.kube.CoordinationV1().Leases("ns").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		for i := range 8 {
			require.NoError(t, w.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), fmt.Sprint("x", i),
				metav1.DeleteOptions{}))
		}
		require.Equal(t, []string{"configmap/checksums.ring.bellwether.dev"}, w.left())
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "there is no Lease ns/checksums-sharder of the sharder's election")
		w.forbidden["patch configmaps"] = true
		_, err = w.kubectl("uninstall", "checksums", "--confirm", "--election=checksums-sharder")
		assert.ErrorContains(t, err, `patch on resource configmaps of API group "" in namespace ns`)
		clear(w.forbidden)
		assert.Empty(t, w.writes)
		begun := time.Now()
		w.require("uninstall", "checksums", "--confirm", "--election=checksums-sharder")
		assert.GreaterOrEqual(t, time.Since(begun), 30*time.Second, "twice the duration of a Lease")
		assert.Empty(t, w.left())
	})
}

// A sharder that is elected on another Lease could run beside the removal.
func TestUninstallNeedsToKnowTheElection(t *testing.T) {
	for _, election := range []string{"checksums-sharder", "of-another-name"} {
		t.Run(election, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.settledRing()
				a.stop()
				b.stop()
				require.NoError(t, w.kube.CoordinationV1().Leases("ns").Delete(t.Context(), "checksums-sharder",
					metav1.DeleteOptions{}))
				_, err := w.kubectl("uninstall", "checksums", "--confirm")
				assert.ErrorContains(t, err, "there is no Lease ns/checksums-sharder of the sharder's election")
				assert.Empty(t, w.writes)
				w.require("uninstall", "checksums", "--confirm", "--election="+election)
				assert.Empty(t, w.left())
			})
		})
	}
}

// A proxy answers with what decodes as an empty list. A ring without Leases would have no obstacles.
func TestUninstallBelievesNoListOfAProxy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.settledRing()
		before := w.left()
		w.odd = func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases") {
				return apisim.Oddities[5](r)
			}
			return nil
		}
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "the answer is not an API server's")
		w.odd = nil
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)
	})
}

// The name of the ring is mistyped. What is named besides may be the election of others.
func TestUninstallOfNothingSparesTheElectionThatWasNamed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		before := w.left()
		_, err := w.kubectl("uninstall", "chekcsums", "--confirm", "--election=checksums-sharder")
		assert.ErrorContains(t, err, "no Lease of a shard of this ring: chekcsums in namespace ns")
		assert.ErrorContains(t, err, "the Lease checksums-sharder alone is not deleted")
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)
	})
}

// Only the name of an election says that it is of a ring.
func TestUninstallSparesAnElectionThatIsNotNamedAsTheRing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		end := w.elect("a")
		w.after(time.Second)
		end()
		w.after(time.Second)
		before := w.left()
		require.Contains(t, before, "lease/daemon")
		_, err := w.kubectl("uninstall", "checksums", "--confirm", "--election=daemon")
		assert.ErrorContains(t, err, "there is a Lease ns/checksums-sharder, and --election names another one: daemon")
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)

		require.NoError(t, w.kube.CoordinationV1().Leases("ns").Delete(t.Context(), "checksums-sharder",
			metav1.DeleteOptions{}))
		assert.Equal(t, []string{"lease/daemon stays: delete it if only this ring's sharder was elected on it"},
			lines(w.require("uninstall", "checksums", "--election=daemon"), "lease/daemon"))
		out := w.require("uninstall", "checksums", "--confirm", "--election=daemon")
		assert.Contains(t, out, "Ring checksums is removed.")
		assert.Equal(t, []string{"lease/daemon"}, w.left())
	})
}

// Two rings of one name, each in its namespace, have the same labels on their objects. The shards of
// the other one are not proved to have ended.
func TestUninstallSparesARingOfTheSameName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		l, err := w.kube.CoordinationV1().Leases("ns").Get(t.Context(), "a", metav1.GetOptions{})
		require.NoError(t, err)
		l.Namespace, l.ResourceVersion, l.UID = "other", "", ""
		_, err = w.kube.CoordinationV1().Leases("other").Create(t.Context(), l, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Contains(t, w.require("ring", "checksums"), "Other namespaces also have a ring of this name: other.")
		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, `namespaces ["other"] also have a ring of this name`)
		w.forbidden["list leases "] = true // in all namespaces
		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "other namespaces may have a ring of this name")
		assert.Empty(t, w.writes)
		w.require("uninstall", "checksums", "--confirm", "--object-namespace=ns")
		assert.Empty(t, w.left())
	})
}

// A ring in use is left alone, whether or not the clocks of its shards agree with this one's.
func TestUninstallOfARingInUseChangesNothing(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, _ := w.settledRing()
		before := w.left()
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "shard a is Ready: end all replicas first")
		assert.ErrorContains(t, err, "shard b is Ready: end all replicas first")
		a.stop() // b leads
		w.after(time.Second)
		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "b leads the election of the sharder")
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)
	})
}

// A shard whose machine's clock is an hour behind looks dead. Its renewals prove that it is not.
func TestUninstallBelievesNoClock(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop() // b leads
		w.after(time.Second)
		w.ahead = time.Hour // the plugin's clock
		_, err := w.kubectl("uninstall", "checksums", "--confirm", "--timeout=1m")
		assert.ErrorContains(t, err, `the election of the sharder was not won: "b" leads`)
		b.client.Inject(apisim.Faults{Refuse: func(r *http.Request) bool { // b is a shard only
			return strings.HasSuffix(r.URL.Path, "/checksums-sharder")
		}})
		w.after(30 * time.Second)
		out, err := w.kubectl("uninstall", "checksums", "--confirm", "--timeout=3m")
		assert.ErrorContains(t, err, "not done within 3m0s")
		assert.Contains(t, out, "Uncertain")
		assert.Contains(t, out, "waiting for shards to end before the ring's labels are removed "+
			`{"ring": "checksums", "shards": ["b"]}`)
		w.ahead = 0
		b.client.Inject(apisim.Faults{})
		w.after(30 * time.Second)
		assert.Contains(t, w.require("ring", "checksums"), "ORPHANS (0)", "no object was stripped")

		b.stop()
		w.after(time.Second)
		w.require("uninstall", "checksums", "--confirm")
		assert.Empty(t, w.left())
	})
}

// A shard that was cut off is waited for until it is proved dead. Then its objects are stripped.
func TestUninstallWaitsForTheProofOfADeath(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		b.pause()
		a.pause()
		w.after(31 * time.Second)
		begun := time.Now()
		w.require("uninstall", "checksums", "--confirm")
		assert.GreaterOrEqual(t, time.Since(begun), 30*time.Second, "twice the duration of a Lease")
		assert.Empty(t, w.left())
	})
}

// A replica that starts while objects are stripped keeps its Lease.
func TestAReplicaThatStartsDuringTheUninstallKeepsItsLease(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		var started atomic.Bool
		w.before = func(r *http.Request) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/x0") &&
				started.CompareAndSwap(false, true) {
				w.replica("c", nil)
				w.after(time.Second)
			}
		}
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		require.True(t, started.Load())
		assert.ErrorContains(t, err, "a replica has started meanwhile")
		w.before = nil
		assert.Contains(t, w.left(), "lease/c")
		w.after(30 * time.Second)
		out := w.require("ring", "checksums")
		assert.Equal(t, []string{"c Ready 100 100% 8 0 0 0s -"}, replaceAges(lines(out, "c", "Ready")), out)
	})
}

func replaceAges(all []string) []string {
	for i := range all {
		all[i] = recent.ReplaceAllString(all[i], "0s")
	}
	return all
}

func TestUninstallNamesAllMissingRights(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		before := w.left()
		for _, f := range []string{"delete leases", "delete configmaps", "patch configmaps"} {
			w.forbidden[f] = true
		}
		_, err := w.kubectl("uninstall", "checksums", "--confirm")
		require.Error(t, err)
		assert.Contains(t, err.Error(), `delete on resource leases of API group "coordination.k8s.io" in namespace ns`)
		assert.Contains(t, err.Error(), `delete on resource configmaps of API group "" in namespace ns`)
		assert.Contains(t, err.Error(), `patch on resource configmaps of API group "" by a ClusterRole`)
		clear(w.forbidden)
		w.forbidden["list pods"] = true
		_, err = w.kubectl("uninstall", "checksums", "--confirm")
		assert.ErrorContains(t, err, "there may be objects of the ring in pods")
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)
		w.require("uninstall", "checksums", "--confirm", "--resource=configmaps")
		assert.Empty(t, w.left())
	})
}

// The user names one resource of the ring, and forgets another. Its objects would keep labels and records
// that nothing remembers.
func TestUninstallKnowsOfResourcesThatAreNotNamed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		_, err := w.kube.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "child", Labels: map[string]string{api.ShardLabel("checksums"): "a"},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		before := w.left()
		for _, args := range [][]string{nil, {"--confirm"}} {
			_, err = w.kubectl(append([]string{"uninstall", "checksums", "--resource=configmaps"}, args...)...)
			assert.ErrorContains(t, err, "the ring also has objects in pods: name all of its resources with "+
				"--resource, or none")
		}
		assert.Equal(t, before, w.left())
		assert.Empty(t, w.writes)
		w.require("uninstall", "checksums", "--confirm", "--resource=configmaps", "--resource=pods")
		assert.Empty(t, w.left())
		child, err := w.kube.CoreV1().Pods("ns").Get(t.Context(), "child", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Empty(t, child.Labels)
	})
}

// An object of a resource that is not named gets a label of the ring while the others are stripped.
func TestUninstallFindsWhatHasComeMeanwhile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		var created sync.Once
		w.before = func(r *http.Request) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/x0") {
				created.Do(func() {
					_, err := w.kube.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
						Name: "child", Labels: map[string]string{api.ShardLabel("checksums"): "a"},
					}}, metav1.CreateOptions{})
					assert.NoError(t, err)
				})
			}
		}
		_, err := w.kubectl("uninstall", "checksums", "--confirm", "--resource=configmaps")
		assert.ErrorContains(t, err, "objects of pods still have labels of the ring")
	})
}

// A resource that is not named and cannot be listed keeps no ring from being removed. It is said.
func TestUninstallOfNamedResourcesNeedsNoOther(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		w.odd = func(r *http.Request) *http.Response {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pods") {
				return apisim.Oddities[5](r)
			}
			return nil
		}
		out := w.require("uninstall", "checksums", "--confirm", "--resource=configmaps")
		assert.Contains(t, out, "objects of the ring were not looked for in all other resources")
		assert.Contains(t, out, "Ring checksums is removed.")
		assert.Empty(t, w.left())
	})
}

// Programs read one value.
func TestUninstallForPrograms(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.settledRing()
		a.stop()
		b.stop()
		out, errOut, err := w.separately("uninstall", "checksums", "--confirm", "-o", "json")
		require.NoError(t, err)
		var ring struct{ Shards []struct{ Name string } }
		require.NoError(t, json.Unmarshal([]byte(out), &ring), out)
		assert.Len(t, ring.Shards, 2)
		assert.Contains(t, errOut, "Ring checksums is removed.")
	})
}

func TestFence(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		node := func(name string, ready corev1.ConditionStatus, labels map[string]string) {
			_, err := w.kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
				Status: corev1.NodeStatus{
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
				},
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		}
		node("works", corev1.ConditionTrue, nil)
		node("lost", corev1.ConditionUnknown, map[string]string{"fencing.bellwether.dev/exclude": "false"})
		node("excluded", corev1.ConditionUnknown, map[string]string{"fencing.bellwether.dev/exclude": "yes"})
		node("given-up", corev1.ConditionUnknown, nil)
		w.lose("given-up", v1alpha1.PhaseGivenUp, nil)
		for name, problem := range map[string]string{
			"works": "node works is Ready", "excluded": "remove it first", "gone": "there is no node gone",
			"given-up": "kubectl annotate nodefence node-fence-given-up fencing.bellwether.dev/restart=1",
		} {
			_, err := w.kubectl("fence", name, "--confirm")
			assert.ErrorContains(t, err, problem, name)
		}
		assert.Contains(t, w.require("fence", "lost"), "Nothing was created.")
		w.forbidden["create nodefences"] = true
		_, err := w.kubectl("fence", "lost", "--confirm")
		assert.ErrorContains(t, err, "create on resource nodefences of API group \"fencing.bellwether.dev\"")
		assert.Empty(t, w.writes)
		clear(w.forbidden)

		assert.Contains(t, w.require("fence", "lost", "--confirm"), "NodeFence node-fence-lost is created.")
		client, err := dynamic.NewForConfig(w.server.Client("fencer").Config())
		require.NoError(t, err)
		u, err := client.Resource(v1alpha1.Resource()).Get(t.Context(), "node-fence-lost", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "lost", u.Object["node"])
		assert.Equal(t, []string{v1alpha1.Finalizer}, u.GetFinalizers(), "as the fencer creates it")
		out := w.require("fences")
		assert.Equal(t, []string{"lost New 0 no - a fencer, which has not seen it yet"}, lines(out, "lost"), out)
		_, err = w.kubectl("fence", "lost", "--confirm")
		assert.ErrorContains(t, err, "node lost has a fence, in phase New")
	})
}
