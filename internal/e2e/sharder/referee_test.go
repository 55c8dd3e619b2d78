package sharder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
)

// referee judges by two independent accounts: the times at which the replicas say they worked on an
// object, and all versions of the objects in the order of the API server.
type referee struct {
	t testing.TB

	mu       sync.Mutex
	work     []*piece
	open     map[string]*piece // by replica and number
	objects  map[types.UID]*history
	breaches []string
}

// piece is one piece of work. Times are the replica's; all replicas share one machine and clock.
type piece struct {
	replica    string
	object     types.UID
	begin, end time.Time // end is zero while it goes on
}

// history is what has become of an object.
type history struct {
	name     string
	versions []version
	owner    owner  // by the last valid record
	lost     string // the shard whose record a user removed, until it is asked or another may begin
}

// version is what the protocol and the work have written on one version of an object.
type version struct {
	shard   string // label
	drained bool
	owner   owner
	valid   bool   // owner
	by      string // the piece of work that wrote last
}

// owner is the part of an owner record that the referee reads.
type owner struct {
	UID   types.UID `json:"uid"`
	Shard string    `json:"shard"`
	Epoch int64     `json:"epoch"`
	State string    `json:"state"`
}

// newReferee returns a referee who sees everything that happens from now on.
func newReferee(c *cluster) *referee {
	c.t.Helper()
	r := &referee{t: c.t, open: map[string]*piece{}, objects: map[types.UID]*history{}}
	client, err := metadata.NewForConfig(c.cp.Admin())
	require.NoError(c.t, err)
	for _, k := range c.kinds {
		objects := metadata.ResourceInterface(client.Resource(k.Resource))
		options := metav1.ListOptions{LabelSelector: "test=" + c.namespace}
		if k.namespaced {
			objects, options = client.Resource(k.Resource).Namespace(c.namespace), metav1.ListOptions{}
		}
		list, err := objects.List(c.t.Context(), options)
		require.NoError(c.t, err)
		changes := func(ctx context.Context, from metav1.ListOptions) (watch.Interface, error) {
			from.LabelSelector = options.LabelSelector
			return objects.Watch(ctx, from)
		}
		e2e.Follow(c.t, list.ResourceVersion, changes, func(e watch.Event) {
			r.see(e.Object.(*metav1.PartialObjectMetadata))
		})
	}
	return r
}

// see takes in a version of an object. The shard that wrote it at work must have been its owner by
// the version before. After a user has removed the record, the former owner may go on, even while
// the assigner asks other possible owners: a record with the drain label lets no shard begin.
func (r *referee) see(o *metav1.PartialObjectMetadata) {
	v := versionOf(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.objects[o.UID]
	if h == nil {
		h = &history{name: o.Name}
		r.objects[o.UID] = h
	} else if before := h.versions[len(h.versions)-1]; v.by != before.by && v.by != "" {
		writer, _, _ := strings.Cut(v.by, "/")
		if (h.owner.Shard != writer || h.owner.State != "owned") && h.lost != writer {
			r.breaches = append(r.breaches,
				o.Name+": "+writer+" wrote while it was "+h.owner.State+" by "+h.owner.Shard)
		}
	}
	h.versions = append(h.versions, v)
	switch {
	case v.valid:
		if v.owner.Shard == h.lost || v.owner.State == "owned" && !v.drained {
			h.lost = ""
		}
		h.owner = v.owner
	case h.owner.State == "owned":
		h.lost = h.owner.Shard
	}
}

func versionOf(o metav1.Object) version {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	v := version{shard: labels[api.ShardLabel(ringName)], by: annotations["by"]}
	_, v.drained = labels[api.DrainLabel(ringName)]
	record, seal := "", labels[api.SealLabel(ringName)]
	for key, value := range annotations { // which may be a copy of another object's, or one from long ago
		if strings.HasPrefix(key, "owner.") && strings.HasSuffix(key, ".bellwether.dev/"+ringName) &&
			sealOf(value) == seal {
			record = value
		}
	}
	v.valid = json.Unmarshal([]byte(record), &v.owner) == nil && v.owner.UID == o.GetUID()
	return v
}

// sealOf is the seal of a record.
func sealOf(record string) string { return strconv.FormatUint(xxhash.Sum64String(record), 16) }

// note takes in what a replica says of its work.
func (r *referee) note(replica string, words []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case words[0] == "begin" && len(words) == 4:
		p := &piece{replica: replica, object: types.UID(words[3]), begin: parseTime(words[2])}
		r.work = append(r.work, p)
		r.open[replica+" "+words[1]] = p
	case words[0] == "end" && len(words) == 3:
		if p := r.open[replica+" "+words[1]]; p != nil {
			p.end = parseTime(words[2])
			delete(r.open, replica+" "+words[1])
		}
	}
}

func parseTime(nanoseconds string) time.Time {
	n, err := strconv.ParseInt(nanoseconds, 10, 64)
	if err != nil {
		return time.Time{} // is a breach in any case: it overlaps with everything
	}
	return time.Unix(0, n)
}

// died ends what a replica was at when its process ended.
func (r *referee) died(replica string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, p := range r.open {
		if p.replica == replica {
			p.end = at
			delete(r.open, key)
		}
	}
}

// workers returns the replicas that have worked on an object, in the order in which they began.
func (r *referee) workers(object types.UID) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, p := range r.work {
		if p.object == object {
			all = append(all, p.replica)
		}
	}
	return slices.Compact(all)
}

// pieces returns the work of a replica; the empty name stands for all.
func (r *referee) pieces(replica string) []piece {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []piece
	for _, p := range r.work {
		if replica == "" || p.replica == replica {
			all = append(all, *p)
		}
	}
	return all
}

// versions returns what has become of an object.
func (r *referee) versions(object types.UID) []version {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.objects[object]; h != nil {
		return slices.Clone(h.versions)
	}
	return nil
}

// requireExclusion is the verdict: no two replicas worked on one object at the same time, and none
// wrote on an object of another.
func (c *cluster) requireExclusion() {
	c.t.Helper()
	r := c.referee
	c.mu.Lock()
	for name, p := range c.processes {
		select {
		case <-p.Done():
			exit, err := p.Wait(c.t.Context())
			require.NoError(c.t, err)
			r.died(name, exit.At)
		default:
		}
	}
	c.mu.Unlock()
	assert.NotEmpty(c.t, r.pieces(""), "no replica has worked")
	assert.Empty(c.t, r.verdict(time.Now()))
}

// verdict returns all breaches. Work without an end goes on now.
func (r *referee) verdict(now time.Time) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	byObject := map[types.UID][]piece{}
	for _, p := range r.work {
		q := *p
		if q.end.IsZero() {
			q.end = now
		}
		byObject[p.object] = append(byObject[p.object], q)
	}
	breaches := slices.Clone(r.breaches)
	for object, pieces := range byObject {
		slices.SortFunc(pieces, func(a, b piece) int { return a.begin.Compare(b.begin) })
		last := map[string]piece{} // of each replica, the one that ends last
		for _, p := range pieces {
			for other, q := range last {
				if other != p.replica && p.begin.Before(q.end) {
					breaches = append(breaches, fmt.Sprintf("two shards at work on %s: %s from %s to %s, %s from %s "+
						"to %s",
						object, other, q.begin, q.end, p.replica, p.begin, p.end))
				}
			}
			if p.end.After(last[p.replica].end) {
				last[p.replica] = p
			}
		}
	}
	return breaches
}

func TestRefereeSeesBreaches(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds int) string {
		return strconv.FormatInt(start.Add(time.Duration(seconds)*time.Second).UnixNano(), 10)
	}
	game := func(says ...string) *referee {
		r := &referee{t: t, open: map[string]*piece{}, objects: map[types.UID]*history{}}
		for _, said := range says {
			replica, words, _ := strings.Cut(said, ": ")
			r.note(replica, strings.Fields(words))
		}
		return r
	}
	now := start.Add(10 * time.Second)
	assert.Empty(t,
		game("a: begin 1 "+at(0)+" x", "a: begin 2 "+at(1)+" x", "a: end 1 "+at(2), "a: end 2 "+at(2),
			"b: begin 1 "+at(3)+" x").verdict(now))
	assert.Empty(t, game("a: begin 1 "+at(0)+" x", "b: begin 1 "+at(0)+" y").verdict(now), "two objects")
	assert.Len(t,
		game("a: begin 1 "+at(0)+" x", "a: begin 2 "+at(1)+" x", "a: end 2 "+at(2),
			"b: begin 1 "+at(3)+" x").verdict(now), 1, "the first goes on")
	dead := game("a: begin 1 "+at(0)+" x", "b: begin 1 "+at(3)+" x")
	dead.died("a", start.Add(2*time.Second))
	assert.Empty(t, dead.verdict(now), "dead before")
	dead = game("a: begin 1 "+at(0)+" x", "b: begin 1 "+at(3)+" x")
	dead.died("a", start.Add(4*time.Second))
	assert.Len(t, dead.verdict(now), 1, "dead after")

	written := func(by, owner, state string) *metav1.PartialObjectMetadata {
		record := fmt.Sprintf(`{"uid":"x","shard":%q,"leaseUID":"l","epoch":1,"state":%q}`, owner, state)
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Name: "o", UID: "x", Labels: map[string]string{api.SealLabel(ringName): sealOf(record)},
			Annotations: map[string]string{"by": by, recordAnnotation(configMaps): record},
		}}
	}
	writes := game()
	writes.see(written("", "a", "owned"))
	writes.see(written("a/1", "a", "owned"))
	writes.see(written("a/1", "a", "free"))
	writes.see(written("a/1", "b", "owned"))
	writes.see(written("b/1", "b", "owned"))
	assert.Empty(t, writes.verdict(now))
	writes.see(written("a/2", "b", "owned"))
	assert.Equal(t, []string{"o: a wrote while it was owned by b"}, writes.verdict(now))

	asked := func(by, owner, state string) *metav1.PartialObjectMetadata {
		o := written(by, owner, state)
		o.Labels[drainLabel] = "1"
		return o
	}
	bare := written("", "", "")
	bare.Annotations = nil
	repaired := func(last ...*metav1.PartialObjectMetadata) []string {
		r := game()
		for _, o := range append([]*metav1.PartialObjectMetadata{written("", "c", "owned"), bare}, last...) {
			r.see(o)
		}
		return r.verdict(now)
	}
	assert.Empty(t, repaired(asked("", "a", "owned"), asked("c/1", "a", "owned"), written("c/1", "a", "free"),
		written("c/2", "a", "free"), written("c/2", "c", "owned"), written("c/3", "c", "owned")),
		"a is asked while c works")
	assert.NotEmpty(t, repaired(written("", "a", "owned"), written("c/1", "a", "owned")), "a may begin")
	assert.NotEmpty(t, repaired(asked("", "a", "owned"), asked("b/1", "a", "owned")), "b never owned it")
	assert.NotEmpty(t,
		repaired(asked("", "a", "owned"), asked("", "c", "owned"), asked("", "c", "free"), asked("c/1", "c", "free")),
		"c has answered")
}
