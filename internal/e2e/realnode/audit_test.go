//go:build linux

package realnode_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// auditPolicy logs the content of what decides who may work: Leases, and the locks and objects in
// ConfigMaps.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
  verbs: [create, update, patch, delete]
  resources:
  - group: coordination.k8s.io
    resources: [leases]
  - resources: [configmaps]
- level: Metadata
`

// tenure is the time for which something belonged to a Pod or a shard, by the API server: from
// before the write that gave it until after the write that took it.
type tenure struct {
	of       string  // UID of the Pod, or name of the shard
	from, to float64 // seconds
}

func (t tenure) covers(of string, begun, ended float64) bool {
	return t.of == of && t.from <= begun && ended <= t.to
}

func (t tenure) String() string { return fmt.Sprintf("%s from %.4f to %.4f", t.of, t.from, t.to) }

// writes are those of one object.
type writes struct {
	made    []e2e.AuditEvent // in the order in which the API server made them
	perhaps []e2e.AuditEvent // have an error for an answer, as if etcd is slow or the client is gone
}

// writes are those of objects of a resource in the app's namespace, by the name of the object.
func (a *app) writes(resource string) map[string]writes {
	a.t.Helper()
	events, err := cluster.Audit()
	require.NoError(a.t, err)
	all := map[string]writes{}
	for _, e := range events {
		if e.Namespace != a.namespace || e.Resource != resource || !e.Write() {
			continue
		}
		of := all[e.Name]
		switch {
		case e.Code < 300:
			of.made = append(of.made, e)
		case e.Code >= 499:
			of.perhaps = append(of.perhaps, e)
		}
		all[e.Name] = of
	}
	for _, of := range all { // until here in the order in which they ended
		for i := range of.made {
			if i > 0 && of.made[i].ResourceVersion == "" { // a deletion: its answer has no object
				of.made[i].ResourceVersion = of.made[i-1].ResourceVersion
			}
		}
		slices.SortStableFunc(of.made, func(one, other e2e.AuditEvent) int {
			order, err := resourceversion.CompareResourceVersion(one.ResourceVersion, other.ResourceVersion)
			assert.NoError(a.t, err)
			return order
		})
	}
	return all
}

// tenures returns those that the writes amount to. of returns whose the object is after a write; empty:
// no one's. A write that was perhaps made may have given it: the answer to the next one shows it.
func (w writes) tenures(of func(e2e.AuditEvent) string) (all []tenure) {
	before, last := "", time.Time{}
	for _, e := range w.made {
		from := e.Received
		for _, p := range w.perhaps {
			if p.Received.Before(from) && p.At.After(last) {
				from = p.Received
			}
		}
		last = e.Received
		now := of(e)
		if now == before {
			continue
		}
		if before != "" {
			all[len(all)-1].to = secondsOf(e.At)
		}
		if now != "" {
			all = append(all, tenure{now, secondsOf(from), math.Inf(1)})
		}
		before = now
	}
	return all
}

// The object belongs to a, and then to b.
func TestTenures(t *testing.T) {
	at := func(s float64) time.Time { return time.UnixMicro(int64(s * 1e6)) }
	write := func(to string, received, answered float64) e2e.AuditEvent {
		return e2e.AuditEvent{Holder: to, Received: at(received), At: at(answered)}
	}
	made := []e2e.AuditEvent{write("a", 1, 2), write("a", 3, 4), write("b", 6, 7), write("b", 8, 9)}
	for name, test := range map[string]struct {
		perhaps []e2e.AuditEvent
		from    float64 // of b
	}{
		"all are known":                        {nil, 6},
		"one before may have given it":         {[]e2e.AuditEvent{write("", 4.5, 5)}, 4.5},
		"its answer may be late":               {[]e2e.AuditEvent{write("", 4.5, 9)}, 4.5},
		"another answer has shown its outcome": {[]e2e.AuditEvent{write("", 2, 2.5)}, 6},
		"the former owner may have it by one":  {[]e2e.AuditEvent{write("", 0.1, 0.2)}, 6},
		"the owner may have made one, too":     {[]e2e.AuditEvent{write("", 8.5, 9)}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			all := writes{made, test.perhaps}.tenures(func(e e2e.AuditEvent) string { return e.Holder })
			require.Len(t, all, 2)
			assert.Equal(t, "a", all[0].of)
			assert.InDelta(t, 7, all[0].to, 1e-6)
			assert.Equal(t, "b", all[1].of)
			assert.InDelta(t, test.from, all[1].from, 1e-6)
			assert.True(t, math.IsInf(all[1].to, 1))
		})
	}
}

func secondsOf(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// leaseTenures are those of the Pods that held a Lease. Among Pods, only the holder writes a Lease that has
// one, or the sharder, which has ended the holder's tenure. A change by an administrator, as of a weight,
// leaves the holder what it is.
func (w writes) leaseTenures() []tenure {
	w.made = slices.DeleteFunc(slices.Clone(w.made), func(e e2e.AuditEvent) bool {
		return e.Pod == "" && e.Holder != ""
	})
	return w.tenures(func(e e2e.AuditEvent) string {
		if e.Holder == "" || e.Holder == shardlease.Sharder {
			return ""
		}
		return string(e.Pod)
	})
}

// leads are the tenures of leaders: of those that held a Lease, and of those that created a lock.
func (a *app) leads() (all []tenure) {
	a.t.Helper()
	for _, of := range a.writes("leases") {
		all = append(all, of.leaseTenures()...)
	}
	for _, of := range a.writes("configmaps") {
		all = append(all, of.tenures(func(e e2e.AuditEvent) string {
			if e.Verb == "delete" {
				return ""
			}
			return string(e.Pod)
		})...)
	}
	return all
}

// strays are the reigns that the API server knows nothing of: nothing was the Pod's for all of that
// time.
func (a *app) strays() (found []reign) {
	a.t.Helper()
	leads := a.leads()
	for _, r := range a.history.reigns() {
		if !slices.ContainsFunc(leads, func(t tenure) bool { return t.covers(string(r.pod), r.begun, r.last) }) {
			found = append(found, r)
		}
	}
	return found
}

// judgeReigns requires that each process has led only while its Pod held the Lease, or its lock was
// there. A request may be over a moment before it is in the log.
func (a *app) judgeReigns() {
	a.t.Helper()
	assert.Eventually(a.t, func() bool { return len(a.strays()) == 0 }, 10*time.Second, poll)
	assert.Empty(a.t, a.strays(), "have led although the API server says otherwise")
}

// judgeStints requires that each shard has worked on an object only while the object's record named
// it, and while its Pod held the Lease of the shard.
func (r ring) judgeStints(all map[string][]stint) {
	r.t.Helper()
	assert.Eventually(r.t, func() bool { return len(r.strayStints(all)) == 0 }, 10*time.Second, time.Second)
	assert.Empty(r.t, r.strayStints(all), "pieces of work that the API server says another shard may have done")
}

// strayStints are the pieces of work that the API server knows nothing of, each with what it knows. An
// object as it is now counts as an answer: the last write may be one whose client was gone.
func (r ring) strayStints(all map[string][]stint) (found []string) {
	r.t.Helper()
	record := api.RecordAnnotation("checksums", schema.GroupResource{Resource: "configmaps"})
	shards := map[string][]tenure{}
	for name, of := range r.writes("leases") {
		shards[name] = of.leaseTenures()
	}
	objects := r.writes("configmaps")
	present, err := cluster.Client.CoreV1().ConfigMaps(r.namespace).List(r.t.Context(), metav1.ListOptions{})
	require.NoError(r.t, err)
	now := time.Now()
	for _, o := range present.Items {
		of := objects[o.Name]
		of.made = append(of.made, e2e.AuditEvent{Annotations: o.Annotations, Received: now, At: now})
		objects[o.Name] = of
	}
	for object, stints := range all {
		owners := objects[object].tenures(func(e e2e.AuditEvent) string {
			var owner struct{ Shard, State string }
			if json.Unmarshal([]byte(e.Annotations[record]), &owner) != nil || owner.State != "owned" {
				return ""
			}
			return owner.Shard
		})
		for _, s := range stints {
			held := func(l tenure) bool { return l.covers(string(s.pod), s.begun, s.ended) }
			if slices.ContainsFunc(owners, func(t tenure) bool {
				return t.covers(t.of, s.begun, s.ended) && slices.ContainsFunc(shards[t.of], held)
			}) {
				continue
			}
			leases := map[string][]tenure{}
			for _, t := range owners {
				leases[t.of] = shards[t.of]
			}
			found = append(found, fmt.Sprintf("%s: Pod %s from %.4f to %.4f; owned by %v; their Leases are of %v",
				object, s.pod, s.begun, s.ended, owners, leases))
		}
	}
	return found
}
