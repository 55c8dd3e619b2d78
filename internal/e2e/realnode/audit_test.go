//go:build linux

package realnode_test

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
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

// writes are those that have changed objects of a resource in the app's namespace, by the name of
// the object, in the order in which the API server made them.
func (a *app) writes(resource string) map[string][]e2e.AuditEvent {
	a.t.Helper()
	events, err := cluster.Audit()
	require.NoError(a.t, err)
	writes := map[string][]e2e.AuditEvent{}
	for _, e := range events {
		if e.Namespace == a.namespace && e.Resource == resource && e.Write() && e.Code < 300 {
			writes[e.Name] = append(writes[e.Name], e)
		}
	}
	for _, of := range writes { // until here in the order in which they ended
		for i := range of[1:] {
			if of[i+1].ResourceVersion == "" { // a deletion: its answer has no object
				of[i+1].ResourceVersion = of[i].ResourceVersion
			}
		}
		slices.SortStableFunc(of, func(one, other e2e.AuditEvent) int {
			order, err := resourceversion.CompareResourceVersion(one.ResourceVersion, other.ResourceVersion)
			assert.NoError(a.t, err)
			return order
		})
	}
	return writes
}

// tenures returns those that writes of one object amount to. of returns whose it is after a write;
// empty: no one's.
func tenures(writes []e2e.AuditEvent, of func(e2e.AuditEvent) string) (all []tenure) {
	before := ""
	for _, e := range writes {
		now := of(e)
		if now == before {
			continue
		}
		if before != "" {
			all[len(all)-1].to = secondsOf(e.At)
		}
		if now != "" {
			all = append(all, tenure{now, secondsOf(e.Received), math.Inf(1)})
		}
		before = now
	}
	return all
}

func secondsOf(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// leaseTenures are those of the Pods that held a Lease. Only a holder writes a Lease that
// has one.
func leaseTenures(writes []e2e.AuditEvent) []tenure {
	return tenures(writes, func(e e2e.AuditEvent) string {
		if e.Holder == "" {
			return ""
		}
		return string(e.Pod)
	})
}

// leads are the tenures of leaders: of those that held a Lease, and of those that created a lock.
func (a *app) leads() (all []tenure) {
	a.t.Helper()
	for _, writes := range a.writes("leases") {
		all = append(all, leaseTenures(writes)...)
	}
	for _, writes := range a.writes("configmaps") {
		all = append(all, tenures(writes, func(e e2e.AuditEvent) string {
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
	record := api.RecordAnnotation("checksums", schema.GroupResource{Resource: "configmaps"})
	strays := func() (found []stint) {
		shards := map[string][]tenure{}
		for name, writes := range r.writes("leases") {
			shards[name] = leaseTenures(writes)
		}
		objects := r.writes("configmaps")
		for object, stints := range all {
			owners := tenures(objects[object], func(e e2e.AuditEvent) string {
				var owner struct{ Shard, State string }
				if json.Unmarshal([]byte(e.Annotations[record]), &owner) != nil || owner.State != "owned" {
					return ""
				}
				return owner.Shard
			})
			for _, s := range stints {
				if !slices.ContainsFunc(owners, func(t tenure) bool {
					return t.covers(t.of, s.begun, s.ended) && slices.ContainsFunc(shards[t.of], func(l tenure) bool {
						return l.covers(string(s.pod), s.begun, s.ended)
					})
				}) {
					found = append(found, s)
				}
			}
		}
		return found
	}
	assert.Eventually(r.t, func() bool { return len(strays()) == 0 }, 10*time.Second, time.Second)
	assert.Empty(r.t, strays(), "pieces of work that the API server says another shard may have done")
}
