package anycontroller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// judge compares what the programs of a ring's replicas wrote, by the audit log, with whose the objects
// were, by all of their versions. A program may write to an object only while its replica owns the
// object or, for a child, the object's root. The user of a request is the replica's own, and the agent
// tells its program from bellwether, whose sharder may write labels to any object.
//
// A write leaves the ring's marks as they are. So whose the object was before the write is in the
// version that the write has led to, or in the last one before if the marks were lost.
type judge struct {
	ring      string
	shards    map[string]string // by user
	resources map[schema.GroupResource]bool

	mu       sync.Mutex
	objects  map[types.UID]*object
	writes   []write
	lost     []string    // versions that have the marks no longer
	refused  map[int]int // requests of programs by status
	byShard  map[string]int
	breaches []string
}

// object is what is known of an object.
type object struct {
	name     string
	resource schema.GroupResource
	versions []version
}

// version is one version of an object.
type version struct {
	number  int64
	root    types.UID // by the controller owner reference; for a root, its own
	shard   string    // label
	owner   owner     // of a root
	deleted bool
}

// owner is the part of an owner record that decides.
type owner struct {
	UID   types.UID `json:"uid"`
	Shard string    `json:"shard"`
	State string    `json:"state"`
}

// write is one that the API server has accepted.
type write struct {
	user, verb, agent string
	uid               types.UID
	version           int64 // 0: a deletion
	name              string
}

func newJudge(ring string) *judge {
	return &judge{
		ring: ring, shards: map[string]string{}, resources: map[schema.GroupResource]bool{},
		objects: map[types.UID]*object{}, refused: map[int]int{}, byShard: map[string]int{},
	}
}

// expect has the judge judge the writes of a user, that of a shard, and reports whether it did before.
func (j *judge) expect(user, shard string) (known bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, known = j.shards[user]
	j.shards[user] = shard
	return known
}

// follow has the judge see all versions of the objects of a ring in a namespace.
func (j *judge) follow(t testing.TB, cp *e2e.ControlPlane, namespace string, p program) {
	t.Helper()
	about := map[string]schema.GroupVersionResource{} // by where they are stored
	for _, each := range slices.Concat(p.resources, p.children) {
		about[storedAt(each)] = each
		j.resources[each.GroupResource()] = true
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() {
		assert.NoError(t, cp.Versions(ctx, namespace, slices.Collect(maps.Keys(about)), func(v e2e.Version) error {
			of := about[v.Resource]
			j.see(of.GroupResource(), v.Object, slices.Contains(p.resources, of), v.Deleted)
			return nil
		}))
	})
	t.Cleanup(following.Wait)
	t.Cleanup(stop)
}

// storedAt returns where etcd has the objects of a resource.
func storedAt(r schema.GroupVersionResource) string {
	switch {
	case strings.Contains(r.Group, "."): // all that are custom
		return r.Group + "/" + r.Resource
	case r.Resource == "services":
		return "services/specs"
	}
	return r.Resource
}

// see processes a version.
func (j *judge) see(resource schema.GroupResource, o metav1.Object, root, deleted bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	number, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	v := version{number: number, deleted: deleted, shard: o.GetLabels()[api.ShardLabel(j.ring)]}
	if root {
		v.root = o.GetUID()
		record := o.GetAnnotations()[api.RecordAnnotation(j.ring, resource)]
		if json.Unmarshal([]byte(record), &v.owner) != nil || v.owner.UID != o.GetUID() {
			v.owner = owner{}
		}
	} else if controller := metav1.GetControllerOf(o); controller != nil {
		v.root = controller.UID
	}
	known := j.objects[o.GetUID()]
	if known == nil {
		known = &object{name: o.GetNamespace() + "/" + o.GetName(), resource: resource}
		j.objects[o.GetUID()] = known
	}
	if n := len(known.versions); n > 0 && root {
		last := known.versions[n-1]
		if v.owner.Shard == "" && last.owner.Shard != "" {
			j.lost = append(j.lost, fmt.Sprintf("%s %s: version %d", resource, known.name, number))
			v.owner = last.owner
		}
	}
	known.versions = append(known.versions, v)
}

// at returns the last of the versions up to a number.
func (o *object) at(number int64) (version, bool) {
	if o == nil {
		return version{}, false
	}
	i, found := slices.BinarySearchFunc(o.versions, number, func(v version, n int64) int {
		return int(min(max(v.number-n, -1), 1))
	})
	if found {
		return o.versions[i], true
	}
	if i == 0 {
		return version{}, false
	}
	return o.versions[i-1], true
}

// own says whether a request is one of bellwether itself.
func own(agent string) bool { return strings.HasPrefix(agent, "bellwether/") }

// audit processes a line of the audit log.
func (j *judge) audit(e e2e.AuditEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shard, ok := j.shards[e.User]
	about := schema.GroupResource{Group: e.APIGroup, Resource: e.Resource}
	if !ok || own(e.UserAgent) || !e.Write() || !j.resources[about] || e.Stage != "ResponseComplete" {
		return
	}
	if e.Code >= 300 {
		j.refused[e.Code]++
		return
	}
	j.byShard[shard]++
	number, _ := strconv.ParseInt(e.ResourceVersion, 10, 64)
	j.writes = append(j.writes, write{
		user: e.User, verb: e.Verb, agent: e.UserAgent, uid: e.UID, version: number,
		name: e.Resource + " " + e.Namespace + "/" + e.Name,
	})
}

// settle judges the writes whose objects have been seen up to them, and returns those that remain: of
// other resources, and of versions that have not come yet.
func (j *judge) settle() (judged int, remaining []write) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range j.writes {
		o := j.objects[w.uid]
		if o == nil {
			remaining = append(remaining, w)
			continue
		}
		last := o.versions[len(o.versions)-1]
		number := w.version
		if number == 0 && last.deleted {
			number = last.number
		}
		if number == 0 || last.number < number {
			remaining = append(remaining, w)
			continue
		}
		judged++
		v, _ := o.at(number)
		if v.root == "" {
			continue // a child of nobody
		}
		root := j.objects[v.root]
		if root == nil {
			continue // a child of something else
		}
		if r, _ := root.at(number); r.owner.State != "owned" || r.owner.Shard != j.shards[w.user] {
			j.breaches = append(j.breaches, fmt.Sprintf("%s: %s by %s (%s) made version %d while the owner was %+v",
				w.name, w.verb, w.user, w.agent, number, r.owner))
		}
	}
	j.writes = remaining
	return judged, remaining
}

// The judge sees what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	foos := schema.GroupResource{Group: "example.com", Resource: "foos"}
	things := schema.GroupResource{Resource: "things"}
	record := func(uid types.UID, shard string) map[string]string {
		text, _ := json.Marshal(owner{uid, shard, "owned"})
		return map[string]string{api.RecordAnnotation("r", foos): string(text)}
	}
	foo := func(number int, shard string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Name: "foo", UID: "1", ResourceVersion: strconv.Itoa(number), Annotations: record("1", shard),
		}
	}
	thing := func(number int) *metav1.ObjectMeta {
		yes := true
		return &metav1.ObjectMeta{
			Name: "thing", UID: "2", ResourceVersion: strconv.Itoa(number),
			OwnerReferences: []metav1.OwnerReference{{UID: "1", Controller: &yes}},
		}
	}
	by := func(user, verb string, uid types.UID, number string) e2e.AuditEvent {
		return e2e.AuditEvent{
			User: user, Verb: verb, UserAgent: "program/1", Code: 200, UID: uid, ResourceVersion: number,
			Resource: "things", Stage: "ResponseComplete",
		}
	}
	bellwethers := by("user-b", "patch", "1", "12")
	bellwethers.UserAgent = "bellwether/v0"
	refused := by("user-b", "patch", "1", "12")
	refused.Code = 409
	for name, c := range map[string]struct {
		write    e2e.AuditEvent
		breaches int
	}{
		"the owner writes to a root":               {by("user-a", "update", "1", "12"), 0},
		"another writes to a root":                 {by("user-b", "update", "1", "12"), 1},
		"the owner writes to a child":              {by("user-a", "create", "2", "13"), 0},
		"another writes to a child":                {by("user-b", "patch", "2", "13"), 1},
		"the former owner writes to a child":       {by("user-a", "patch", "2", "15"), 1},
		"the next owner writes to a child":         {by("user-b", "patch", "2", "15"), 0},
		"the former owner deletes a child":         {by("user-a", "delete", "2", ""), 1},
		"the next owner deletes a child":           {by("user-b", "delete", "2", ""), 0},
		"bellwether's own writes are not judged":   {bellwethers, 0},
		"what was refused is not judged":           {refused, 0},
		"a write that changes nothing, by another": {by("user-a", "update", "1", "14"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJudge("r")
			j.shards = map[string]string{"user-a": "a", "user-b": "b"}
			j.resources[things] = true
			j.see(foos, foo(10, "a"), true, false)
			j.see(foos, foo(12, "a"), true, false)
			j.see(things, thing(13), false, false)
			j.see(foos, foo(14, "b"), true, false)
			j.see(things, thing(15), false, false)
			j.see(things, thing(16), false, true)
			j.audit(c.write)
			_, remaining := j.settle()
			assert.Empty(t, remaining)
			assert.Len(t, j.breaches, c.breaches)
		})
	}
}
