package chaos_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

const ringName = "chaos"

var (
	shardLabel      = api.ShardLabel(ringName)
	drainLabel      = api.DrainLabel(ringName)
	ownerAnnotation = api.RecordAnnotation(ringName, schema.GroupResource{Resource: "configmaps"})
)

const (
	sumAnnotation = "chaos.bellwether.dev/sha256"
	byAnnotation  = "chaos.bellwether.dev/by"
)

// ownership is the referee of all versions of the objects, in the order in which they were stored.
// The audit log says which user wrote them. The work of a shard may write only to objects that it
// owns. The owner of an object follows from its last valid record: users remove records and labels,
// but the owner may still work, and so may the shards that are asked in turn. It is not safe for
// concurrent use.
type ownership struct {
	breached func(family types.UID, what string)

	objects map[types.UID]*object
	gone    []*object // deleted, in this order
	// stored is by what each of the latest versions was written, and whose its object was before.
	stored    map[int64]stored
	revisions []int64         // in stored, in order
	latest    int64           // revision
	waiting   map[int64]write // audited, and not stored yet as far as is known

	// What was judged: versions by the signature of the work that wrote them, and writes by their
	// user, as the audit log has them. Edited were those, by the signature, whose object did not
	// carry what the last record says because of a user.
	signed, audited, edited int
}

// object is the remembered state of an object.
type object struct {
	name     string
	uid      types.UID
	family   types.UID // own UID, or that of the parent
	owner    owner     // by the last valid record
	now      carried
	versions []string // the latest ones, to be read by people
	deleted  time.Time
}

// carried is the content of a version.
type carried struct {
	shard, by string
	drained   bool
	owner     owner
}

// owner is the part of an owner record that decides.
type owner struct {
	UID      types.UID `json:"uid"`
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
	State    string    `json:"state"`
	// Left are other shards that may work, because a user has removed the record that would exclude
	// them.
	Left []tenant `json:"left"`
}

// tenant is a shard, in one of its lives.
type tenant struct {
	Shard    string    `json:"shard"`
	LeaseUID types.UID `json:"leaseUID"`
	Epoch    int64     `json:"epoch"`
}

// is says whether the owner is a shard, in any of its lives.
func (o owner) is(shard string) bool { return o.State == "owned" && o.Shard == shard }

// lets says whether a shard may be at work.
func (o owner) lets(t tenant) bool {
	return o.is(t.Shard) && o.LeaseUID == t.LeaseUID && o.Epoch == t.Epoch || slices.Contains(o.Left, t)
}

// letsSome says whether a shard may be at work in any of its lives.
func (o owner) letsSome(shard string) bool {
	return o.is(shard) || slices.ContainsFunc(o.Left, func(t tenant) bool { return t.Shard == shard })
}

func (o owner) String() string {
	if o.Shard == "" {
		return "no owner"
	}
	text := fmt.Sprintf("%s by %s in epoch %d of %s", o.State, o.Shard, o.Epoch, o.LeaseUID)
	if len(o.Left) > 0 {
		text += fmt.Sprintf(", left %v", o.Left)
	}
	return text
}

// stored is one version, and the owner of its family before it.
type stored struct {
	object *object
	before owner
}

// write is an audited write.
type write struct{ user, shard string }

func newOwnership(breached func(types.UID, string)) *ownership {
	return &ownership{
		breached: breached, objects: map[types.UID]*object{}, stored: map[int64]stored{},
		waiting: map[int64]write{},
	}
}

// history is how many versions of an object are kept, and remembered for how many versions of all
// objects their writers can be named later.
const (
	history     = 60
	rememberFor = 50_000
)

// see processes the next version. It returns the object, and its previous content.
func (w *ownership) see(v e2e.Version, at time.Duration) (o *object, before carried) {
	uid := v.Object.GetUID()
	o = w.objects[uid]
	if o == nil {
		o = &object{name: v.Object.GetName(), uid: uid, family: uid}
		if parent := metav1.GetControllerOf(v.Object); parent != nil {
			o.family = parent.UID
		}
		w.objects[uid] = o
	}
	before = o.now
	family := w.objects[o.family]
	if family == nil {
		family = &object{}
	}
	if v.Deleted {
		o.deleted = time.Now()
		w.gone = append(w.gone, o)
	} else {
		o.now = carriedBy(v.Object)
	}
	w.remember(v.Revision, stored{o, family.owner})
	o.note(fmt.Sprintf("%v: version %d: %s", at, v.Revision, describe(o.now, v.Deleted)))
	if o.now.by != before.by && o.now.by != "" {
		w.judgeSigned(v.Revision, o, family, before)
	}
	if o.now.owner.UID == uid {
		o.owner = o.now.owner
	}
	if write, ok := w.waiting[v.Revision]; ok {
		delete(w.waiting, v.Revision)
		w.judgeAudited(v.Revision, write)
	}
	return o, before
}

func carriedBy(o metav1.Object) carried {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	c := carried{shard: labels[shardLabel], by: annotations[byAnnotation]}
	_, c.drained = labels[drainLabel]
	if json.Unmarshal([]byte(annotations[ownerAnnotation]), &c.owner) != nil || c.owner.UID != o.GetUID() {
		c.owner = owner{}
	}
	return c
}

func describe(c carried, deleted bool) string {
	if deleted {
		return "deleted"
	}
	text := fmt.Sprintf("label %q, %s, written at work by %s", c.shard, c.owner, c.by)
	if c.drained {
		text += ", drained"
	}
	return text
}

func (o *object) note(what string) {
	if len(o.versions) >= history {
		o.versions = slices.Delete(o.versions, 0, len(o.versions)-history+1)
	}
	o.versions = append(o.versions, what)
}

func (w *ownership) remember(revision int64, s stored) {
	w.latest = revision
	w.stored[revision] = s
	w.revisions = append(w.revisions, revision)
	if len(w.revisions) > rememberFor {
		for _, old := range w.revisions[:rememberFor/2] {
			delete(w.stored, old)
		}
		w.revisions = slices.Clone(w.revisions[rememberFor/2:])
	}
}

// judgeSigned judges the piece of work that wrote a version, by its signature: <shard>/<UID of its
// Lease>/<epoch>/....
func (w *ownership) judgeSigned(revision int64, o, family *object, before carried) {
	w.signed++
	by := o.now.by
	parts := strings.SplitN(by, "/", 4)
	if len(parts) < 4 {
		w.breached(o.family, fmt.Sprintf("version %d has the signature %q", revision, by))
		return
	}
	epoch, _ := strconv.ParseInt(parts[2], 10, 64)
	if !family.owner.lets(tenant{parts[0], types.UID(parts[1]), epoch}) {
		w.breached(o.family, fmt.Sprintf("%s wrote version %d of %s, which was %s", by, revision, o.name, family.owner))
	} else if o != family && len(o.versions) == 1 && o.now.shard != parts[0] {
		w.breached(o.family, fmt.Sprintf("%s created %s with the label %q", by, o.name, o.now.shard))
	} else if o == family && (!before.owner.is(parts[0]) || before.shard != parts[0]) {
		w.edited++
	}
}

// audit processes a write by the work of a shard. Versions and audit log are read independently:
// either may be ahead.
func (w *ownership) audit(revision int64, by write) {
	if revision > w.latest {
		w.waiting[revision] = by
		return
	}
	w.judgeAudited(revision, by)
}

func (w *ownership) judgeAudited(revision int64, by write) {
	v, ok := w.stored[revision]
	if !ok {
		w.breached("", fmt.Sprintf("%s wrote version %d, which was never stored", by.user, revision))
		return
	}
	w.audited++
	v.object.note(fmt.Sprintf("version %d was written by user %s", revision, by.user))
	if !v.before.letsSome(by.shard) {
		w.breached(v.object.family,
			fmt.Sprintf("user %s wrote version %d of %s, which was %s", by.user, revision, v.object.name, v.before))
	}
}

// forget drops objects that were deleted before a time.
func (w *ownership) forget(before time.Time) {
	for len(w.gone) > 0 && w.gone[0].deleted.Before(before) {
		delete(w.objects, w.gone[0].uid)
		w.gone = w.gone[1:]
	}
}

func TestOwnership(t *testing.T) {
	t.Parallel()
	type step struct {
		o     *metav1.ObjectMeta
		audit write
	}
	version := func(uid types.UID, record, by string, edit func(*metav1.ObjectMeta)) step {
		o := &metav1.ObjectMeta{
			Name: "o", UID: uid, Labels: map[string]string{},
			Annotations: map[string]string{byAnnotation: by},
		}
		if shard, state, ok := strings.Cut(record, " "); ok {
			o.Labels[shardLabel] = shard
			o.Annotations[ownerAnnotation] = fmt.Sprintf(`{"uid":%q,"shard":%q,"leaseUID":"l","epoch":1,"state":%q}`,
				uid, shard, state)
		}
		if edit != nil {
			edit(o)
		}
		return step{o: o}
	}
	audited := func(s step, shard string) step {
		s.audit = write{user: shard + "-user", shard: shard}
		return s
	}
	child := func(o *metav1.ObjectMeta) {
		o.Labels[shardLabel] = "a"
		o.OwnerReferences = []metav1.OwnerReference{{UID: "x", Controller: new(bool)}}
		*o.OwnerReferences[0].Controller = true
	}
	left := func(o *metav1.ObjectMeta) {
		record := o.Annotations[ownerAnnotation]
		o.Annotations[ownerAnnotation] = strings.TrimSuffix(record,
			"}") + `,"left":[{"shard":"a","leaseUID":"l","epoch":1}]}`
	}
	unstamped := func(o *metav1.ObjectMeta) {
		child(o)
		delete(o.Labels, shardLabel)
	}
	for name, test := range map[string]struct {
		steps            []step
		breaches, edited int
	}{
		"the owner": {steps: []step{
			version("x", "a owned", "", nil),
			audited(version("x", "a owned", "a/l/1/1/1", nil), "a"),
		}},
		"no owner": {
			steps:    []step{version("x", "", "", nil), audited(version("x", "", "a/l/1/1/1", nil), "a")},
			breaches: 2,
		},
		"another's": {steps: []step{
			version("x", "b owned", "", nil),
			audited(version("x", "b owned", "a/l/1/1/1", nil), "a"),
		}, breaches: 2},
		"let go of": {steps: []step{
			version("x", "a free", "", nil),
			audited(version("x", "a free", "a/l/1/1/1", nil), "a"),
		}, breaches: 2},
		"asked in turn": {steps: []step{
			version("x", "b owned", "", left),
			audited(version("x", "b free", "a/l/1/1/1", left), "a"),
		}, edited: 1},
		"asked, but dead": {
			steps:    []step{version("x", "b owned", "", left), version("x", "b free", "a/l/2/1/1", left)},
			breaches: 1,
		},
		"another epoch": {steps: []step{
			version("x", "a owned", "", nil),
			audited(version("x", "a owned", "a/l/2/1/1", nil), "a"),
		}, breaches: 1},
		"another Lease": {
			steps:    []step{version("x", "a owned", "", nil), version("x", "a owned", "a/m/1/1/1", nil)},
			breaches: 1,
		},
		"strange": {
			steps:    []step{version("x", "a owned", "", nil), version("x", "a owned", "a", nil)},
			breaches: 1,
		},
		"after an edit": {steps: []step{
			version("x", "a owned", "", nil), version("x", "", "", nil),
			audited(version("x", "", "a/l/1/1/1", nil), "a"),
		}, edited: 1},
		"only the audit": {steps: []step{
			version("x", "a owned", "", nil),
			audited(version("x", "a owned", "", nil), "b"),
		}, breaches: 1},
		"a copied record": {steps: []step{
			version("x", "a owned", "", func(o *metav1.ObjectMeta) { o.UID = "y" }),
			version("y", "", "a/l/1/1/1", nil),
		}, breaches: 1},
		"a child": {steps: []step{
			version("x", "a owned", "", nil),
			audited(version("c", "", "a/l/1/1/1", child), "a"),
		}},
		"not stamped": {
			steps:    []step{version("x", "a owned", "", nil), version("c", "", "a/l/1/1/1", unstamped)},
			breaches: 1,
		},
		"another's child": {steps: []step{
			version("x", "b owned", "", nil),
			audited(version("c", "", "a/l/1/1/1", child), "a"),
		}, breaches: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for order, auditFirst := range map[string]bool{"audit after": false, "audit before": true} {
				var breaches []string
				w := newOwnership(func(_ types.UID, what string) { breaches = append(breaches, what) })
				audits := 0
				for i, s := range test.steps {
					revision := int64(i + 10)
					if s.audit != (write{}) {
						audits++
					}
					if auditFirst && s.audit != (write{}) {
						w.audit(revision, s.audit)
					}
					w.see(e2e.Version{Revision: revision, Object: s.o}, 0)
					if !auditFirst && s.audit != (write{}) {
						w.audit(revision, s.audit)
					}
				}
				assert.Len(t, breaches, test.breaches, "%s: %q", order, breaches)
				assert.Equal(t, test.edited, w.edited, order)
				assert.Equal(t, audits, w.audited, order)
				assert.Empty(t, w.waiting, order)
			}
		})
	}
	w := newOwnership(func(types.UID, string) {})
	w.see(e2e.Version{Revision: 1, Object: &metav1.ObjectMeta{UID: "x"}}, 0)
	w.see(e2e.Version{Revision: 2, Object: &metav1.ObjectMeta{UID: "x"}, Deleted: true}, 0)
	w.forget(time.Now().Add(time.Second))
	assert.Empty(t, w.objects)
}
