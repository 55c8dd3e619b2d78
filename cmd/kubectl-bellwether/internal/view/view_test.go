package view

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/sharder"
	"github.com/bellwether-k8s/bellwether/sharder/api"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

var now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// held is a Lease that its holder has renewed so long ago.
func held(name string, ago time.Duration, change ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	l := lease.RecordOf(nil).Acquired(types.NamespacedName{Namespace: "ns", Name: name}, name, 15*time.Second,
		metav1.NewMicroTime(now.Add(-time.Hour)))
	l.UID = types.UID("lease of " + name)
	l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(now.Add(-ago)))
	for _, f := range change {
		f(l)
	}
	return l
}

// ofRing makes a Lease that of a shard.
func ofRing(l *coordinationv1.Lease) {
	metav1.SetMetaDataLabel(&l.ObjectMeta, shardlease.RingLabel, "r")
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, shardrecord.EpochAnnotation, "3")
}

func released(ago time.Duration) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { *l = *lease.RecordOf(l).Release(metav1.NewMicroTime(now.Add(-ago))) }
}

func annotated(key, value string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { metav1.SetMetaDataAnnotation(&l.ObjectMeta, key, value) }
}

func TestStatesOfShards(t *testing.T) {
	for name, c := range map[string]struct {
		lease   *coordinationv1.Lease
		state   string
		mayWork bool
		ended   bool
	}{
		"renewed":                  {held("a", 2*time.Second, ofRing), "Ready", true, false},
		"by a clock ahead of this": {held("a", -time.Minute, ofRing), "Ready", true, false},
		"not renewed for D":        {held("a", 16*time.Second, ofRing), "Expired", true, false},
		"not renewed for 2D":       {held("a", 31*time.Second, ofRing), "Uncertain", false, false},
		"released":                 {held("a", 0, ofRing, released(time.Minute)), "Dead", false, true},
		"released, and expected back": {
			held("a", 0, ofRing, annotated(shardrecord.ReturnAnnotation, "90"), released(time.Minute)),
			"Away", false, true,
		},
		"expected back for too long": {
			held("a", 0, ofRing, annotated(shardrecord.ReturnAnnotation, "30"), released(time.Minute)),
			"Dead", false, true,
		},
		"dead for two hours": {held("a", 0, ofRing, released(2*time.Hour)), "Orphaned", false, true},
		"of another holder": {held("a", 0, ofRing, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = ptr.To("b")
		}), "Malformed", false, false},
	} {
		s, err := ShardOf("r", c.lease, now)
		require.NoError(t, err, name)
		assert.Equal(t, c.state, s.State, name)
		assert.Equal(t, c.mayWork, s.MayWork(), name)
		assert.Equal(t, c.ended, s.Ended(), name)
		assert.EqualValues(t, 3, s.Epoch, name)
		assert.Equal(t, c.state == "Malformed", s.Problem != "", name)
	}
	s, err := ShardOf("r", held("a", 0, ofRing, annotated(shardrecord.LeavingAnnotation, "true"),
		annotated(shardrecord.PodAnnotation, "pod-1")), now)
	require.NoError(t, err)
	assert.True(t, s.Leaving)
	assert.Equal(t, "pod-1", s.Pod)
}

func TestStatesOfElections(t *testing.T) {
	for name, c := range map[string]struct {
		lease  *coordinationv1.Lease
		state  string // empty: it is no election
		holder string
	}{
		"renewed":  {held("a", time.Second), Held, "a"},
		"silent":   {held("a", time.Minute), Expired, "a"},
		"released": {held("a", 0, released(time.Minute)), Released, ""},
		"emptied": {held("a", 0, func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = ptr.To("")
		}), Vacant, ""},
		"for life": {held("a", time.Hour, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{lease.LockLabel: lease.LockForLife}
			l.Annotations = nil
		}), ForLife, "a"},
		"a shard": {held("a", 0, ofRing), "", ""},
		"an instance": {held("a", 0, func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{serviceLabel: "web"}
		}), "", ""},
		"another program's": {held("a", 0, func(l *coordinationv1.Lease) { l.Annotations = nil }), "", ""},
	} {
		e, ok := ElectionOf(c.lease, now)
		assert.Equal(t, c.state != "", ok, name)
		assert.Equal(t, c.state, e.State, name)
		assert.Equal(t, c.holder, e.Holder, name)
	}
}

func TestLocksForLife(t *testing.T) {
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: "pod"}}}}
	assert.Equal(t, "pod", LockOf(owned).Holder)
	kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keptAnnotation: "pod/uid"}}}
	assert.Equal(t, "pod", LockOf(kept).Holder)
	assert.Equal(t, Vacant, LockOf(&corev1.ConfigMap{}).State)
}

// shards are a ring of Ready a, Expired b, Uncertain c and Dead d, all in epoch 3.
func shards(t *testing.T) []Shard {
	var all []Shard
	for _, l := range []*coordinationv1.Lease{
		held("d", 0, ofRing, released(time.Minute)), held("c", time.Minute, ofRing), held("b", 20*time.Second, ofRing),
		held("a", 0, ofRing),
	} {
		s, err := ShardOf("r", l, now)
		require.NoError(t, err)
		all = append(all, s)
	}
	return all
}

func owned(shard string) *sharder.Ownership {
	epoch := shardlease.Epoch{LeaseUID: types.UID("lease of " + shard), Number: 3}
	return &sharder.Ownership{Shard: shard, Epoch: epoch}
}

func TestOrphans(t *testing.T) {
	free, former, elsewhere := owned("a"), owned("a"), owned("a")
	free.Free, former.Epoch.Number, elsewhere.Epoch.LeaseUID = true, 2, "x"
	for name, c := range map[string]struct {
		object Object
		why    string
	}{
		"of a shard that works":     {Object{Shard: "a", Owner: owned("a")}, ""},
		"of one that may come back": {Object{Shard: "b", Owner: owned("b")}, ""},
		"whose label was edited":    {Object{Shard: "d", Owner: owned("a")}, ""},
		"of one that is silent":     {Object{Shard: "c", Owner: owned("c")}, "shard c is Uncertain"},
		"of one that has ended":     {Object{Shard: "d", Owner: owned("d")}, "shard d is Dead"},
		"of one without a Lease":    {Object{Shard: "e", Owner: owned("e")}, "shard e has no Lease"},
		"of an earlier epoch": {
			Object{Shard: "a", Owner: former}, "its record is of epoch 2 of shard a, which is in epoch 3",
		},
		"of an earlier Lease": {
			Object{Shard: "a", Owner: elsewhere}, "its record is of an earlier Lease of shard a",
		},
		"let go of": {
			Object{Owner: free}, "shard a has let go of it, and the sharder has to assign it",
		},
		"new": {Object{}, "no shard has had it yet"},
		"whose record is a copy": {
			Object{Shard: "a"},
			"it has no valid record of its owner, so the sharder asks the shards that may be at work on it",
		},
		"child":                       {Object{Resource: "pods", Controller: "x", Shard: "a"}, ""},
		"child of one that has ended": {Object{Resource: "pods", Controller: "x", Shard: "d"}, "shard d is Dead"},
		"child without a shard":       {Object{Resource: "pods", Controller: "x"}, "no shard has had it yet"},
	} {
		if c.object.Resource == "" {
			c.object.Resource = "configmaps"
		}
		r := RingOf("ns", "r", nil, shards(t), []Object{
			{Resource: "configmaps", Shard: "a", Owner: owned("a")}, c.object,
		})
		if c.why == "" {
			assert.Empty(t, r.Orphans, name)
			continue
		}
		require.Len(t, r.Orphans, 1, name)
		assert.Equal(t, c.why, r.Orphans[0].Why, name)
	}
}

func TestObjectsAreCounted(t *testing.T) {
	handed := owned("b")
	handed.Successor = "a"
	r := RingOf("ns", "r", nil, shards(t), []Object{
		{Resource: "configmaps", Name: "x", Shard: "a", Owner: owned("a")},
		{Resource: "configmaps", Name: "y", Shard: "b", Owner: handed, Draining: true, DrainSince: now},
		{
			Resource: "configmaps", Name: "z", Shard: "a", Owner: owned("a"), Draining: true,
			DrainSince: now.Add(-time.Minute),
		},
		{Resource: "pods", Name: "p", Shard: "a", Controller: "x"},
	})
	assert.Equal(t, []Count{{"configmaps", 3, 0}, {"pods", 0, 1}}, r.Resources)
	a := r.Shard("a")
	assert.Equal(t, []int{2, 1, 1}, []int{a.Objects, a.Children, a.Draining})
	require.Len(t, r.Drains, 2)
	assert.Equal(t, "z", r.Drains[0].Name, "the longest first")
	assert.Equal(t, "a", r.Drains[1].To)
	assert.Equal(t, []string{"a", "b", "c"}, r.Members())
	assert.Equal(t, Summary{Namespace: "ns", Name: "r", Members: 3, Ready: 1, Others: 1}, r.Summary())
}

// The shares are those that the sharder gives: to living shards that are not idle, and to drained ones only if there
// are no others.
func TestSharesByWeights(t *testing.T) {
	weight := func(w string) func(*coordinationv1.Lease) { return annotated(shardlease.WeightAnnotation, w) }
	idle := annotated(shardrecord.IdleAnnotation, "true")
	for name, c := range map[string]struct {
		leases []*coordinationv1.Lease
		shares map[string]float64
	}{
		"one as the other": {[]*coordinationv1.Lease{
			held("a", 0, ofRing), held("b", 0, ofRing),
		}, map[string]float64{"a": 0.5, "b": 0.5}},
		"own and given": {[]*coordinationv1.Lease{
			held("a", 0, ofRing, annotated(shardrecord.OwnWeightAnnotation, "300")),
			held("b", 0, ofRing, weight("100")),
		}, map[string]float64{"a": 0.75, "b": 0.25}},
		"a drained one": {[]*coordinationv1.Lease{
			held("a", 0, ofRing, weight("0")), held("b", 0, ofRing, weight("5")),
		}, map[string]float64{"a": 0, "b": 1}},
		"only drained ones": {[]*coordinationv1.Lease{
			held("a", 0, ofRing, weight("0")), held("b", 0, ofRing, weight("0")),
			held("c", 0, ofRing, released(0)),
		}, map[string]float64{"a": 0.5, "b": 0.5, "c": 0}},
		"only an idle one besides": {[]*coordinationv1.Lease{
			held("a", 0, ofRing, weight("0")), held("b", 0, ofRing, idle),
		}, map[string]float64{"a": 1, "b": 0}},
		"none that lives": {[]*coordinationv1.Lease{held("a", 0, ofRing, released(0))}, map[string]float64{"a": 0}},
	} {
		var all []Shard
		for _, l := range c.leases {
			s, err := ShardOf("r", l, now)
			require.NoError(t, err)
			all = append(all, s)
		}
		shares := map[string]float64{}
		for _, s := range RingOf("ns", "r", nil, all, nil).Shards {
			shares[s.Name] = s.Share
		}
		assert.Equal(t, c.shares, shares, name)
	}
}

// keyed are objects with these keys that are with their owners on the ring of members.
func keyed(t *testing.T, members []string, keys ...string) []Object {
	weights := map[string]int{}
	for _, name := range members {
		weights[name] = shardlease.DefaultWeight
	}
	places, err := sharder.RingOf(weights)
	require.NoError(t, err)
	var all []Object
	for _, key := range keys {
		owner, _ := places.Owner(key)
		all = append(all, Object{Resource: "configmaps", Name: key, Key: key, Shard: owner, Owner: owned(owner)})
	}
	return all
}

func planOf(r Ring, objects []Object, c Change) (Plan, error) {
	changed, err := r.Changed(c)
	if err != nil {
		return Plan{}, err
	}
	return PlanOf(r, changed, objects)
}

func TestPlan(t *testing.T) {
	keys := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"}
	objects := keyed(t, []string{"a", "b", "c"}, keys...)
	children := Object{Resource: "pods", Controller: "x", Shard: "a"}
	r := RingOf("ns", "r", nil, shards(t), append(objects, children))

	p, err := planOf(r, append(objects, children), Change{Without: []string{"c"}})
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"a": 100, "b": 100}, p.After)
	assert.Equal(t, 10, p.Objects, "children do not count")
	assert.Zero(t, p.Displaced)
	assert.False(t, p.Misfits())
	moved := 0
	for _, m := range p.Moves {
		assert.Equal(t, "c", m.From, "only objects of the shard that leaves move")
		moved += m.Objects
	}
	assert.Equal(t, r.Shard("c").Objects, moved)
	assert.Equal(t, 10, moved+p.Stay)

	p, err = planOf(r, objects, Change{With: []string{"e=0"}})
	require.NoError(t, err)
	assert.Equal(t, p.Before, p.After)
	assert.Empty(t, p.Moves, "it would get nothing")

	with := Change{With: []string{"e"}}
	p, err = planOf(r, objects, with)
	require.NoError(t, err)
	for _, m := range p.Moves {
		assert.Equal(t, "e", m.To, "objects move only to the shard that joins")
	}

	for _, c := range []struct {
		change Change
		err    string
	}{
		{Change{Without: []string{"d"}}, `shard d is no member of ring r, whose members are ["a" "b" "c"]`},
		{Change{With: []string{"a"}}, "shard a is a member of ring r already"},
		{Change{Without: []string{"a", "b", "c"}}, "no shard would be left: all objects would wait for one"},
		{Change{With: []string{"e", "e=5"}}, "shard e is a member of ring r already"},
		{Change{With: []string{"e=1001"}}, `weight of shard e: must be a whole number from 0 to 1000 (got "1001")`},
	} {
		_, err := planOf(r, objects, c.change)
		assert.ErrorContains(t, err, c.err)
	}

	for i := range objects { // as with another key
		objects[i].Key = "other " + objects[i].Key
		objects[i].Owner = owned("b")
	}
	p, err = planOf(RingOf("ns", "r", nil, shards(t), objects), objects, with)
	require.NoError(t, err)
	assert.True(t, p.Misfits(), "%d of %d", p.Displaced, p.Objects)
}

func TestWhatAnObjectWaitsFor(t *testing.T) {
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	ref := api.ObjectRef{GVR: gvr, Namespace: "ns", Name: "x"}
	led := &Election{State: Held, Holder: "a"}
	for name, c := range map[string]struct {
		x       sharder.Explanation
		root    Object
		sharder *Election
		waits   []string
	}{
		"nothing": {sharder.Explanation{Owner: "a", Verb: "keep"}, Object{Owner: owned("a")}, nil, []string{}},
		"a shard that is silent": {
			sharder.Explanation{Owner: "b", Verb: "keep"},
			Object{Owner: owned("b")},
			led,
			[]string{
				"shard b: its Lease was not renewed for 20s. It may come back until twice its duration " +
					"of 15s is over",
			},
		},
		"proof of a death": {
			sharder.Explanation{Owner: "c", Verb: "keep"},
			Object{Owner: owned("c")},
			led,
			[]string{
				"proof that shard c is dead: its Lease was not renewed for 60s, so a sharder takes it over when it " +
					"has watched it for twice 15s itself",
			},
		},
		"a drain": {
			sharder.Explanation{Owner: "a", Verb: "await", Draining: true},
			Object{Owner: owned("a"), DrainSince: now.Add(-3 * time.Minute)},
			led,
			[]string{"shard a, which is asked to end its work on it since 3m"},
		},
		"others": {
			sharder.Explanation{Owner: "a", Verb: "hold", Left: []string{"b"}},
			Object{Owner: owned("a")},
			led,
			[]string{"shard b, which has to confirm that it does not work on it"},
		},
		"a sharder":   {sharder.Explanation{Verb: "assign"}, Object{}, nil, []string{"a sharder: none is elected"}},
		"the sharder": {sharder.Explanation{Verb: "assign"}, Object{}, led, []string{"the sharder, a, to assign it"}},
		"a drain that comes": {
			sharder.Explanation{Owner: "a", Verb: "drain"},
			Object{Owner: owned("a")},
			led,
			[]string{"the sharder, a (drain)"},
		},
	} {
		c.x.Object, c.x.Root = ref, ref
		e := ExplanationOf(c.x, c.root, RingOf("ns", "r", c.sharder, shards(t), nil), now)
		assert.Equal(t, c.waits, e.Waits, name)
	}
	e := ExplanationOf(sharder.Explanation{Object: ref, Root: ref, Verb: "hold"}, Object{},
		RingOf("ns", "r", led, nil, nil), now)
	assert.Equal(t, []string{"a shard: the ring has none"}, e.Waits)
}

// What has no time of a change has no age.
func TestWhenAKeyWasWritten(t *testing.T) {
	entry := func(ago time.Duration, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Time: ptr.To(metav1.NewTime(now.Add(-ago))), FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{api.ShardLabel("r"): "a", api.DrainLabel("r"): "true"},
		ManagedFields: []metav1.ManagedFieldsEntry{
			entry(time.Hour, `{"f:metadata":{"f:labels":{"f:drain.bellwether.dev/r":{}}}}`),
			entry(time.Minute, `{"f:metadata":{"f:labels":{"f:drain.bellwether.dev/r":{}}}}`),
			entry(0, `{"f:metadata":{"f:labels":{"f:drain.bellwether.dev/r2":{}}}}`),
			{},
		},
	}}
	k := Kind{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		Kind:                 schema.GroupKind{Kind: "ConfigMap"},
	}
	v := ObjectOf("r", k, o, nil)
	assert.Equal(t, now.Add(-time.Minute), v.DrainSince)
	assert.True(t, v.Written.IsZero())
	assert.Nil(t, v.Owner)
	assert.True(t, v.Draining)
}

func TestWhatAFenceWaitsFor(t *testing.T) {
	fence := func(phase v1alpha1.Phase, change func(*v1alpha1.NodeFence)) *v1alpha1.NodeFence {
		f := &v1alpha1.NodeFence{Node: "w1", Status: v1alpha1.Status{Phase: phase}}
		if change != nil {
			change(f)
		}
		return f
	}
	for name, c := range map[string]struct {
		fence *v1alpha1.NodeFence
		waits string
	}{
		"new":  {fence("", nil), "a fencer, which has not seen it yet"},
		"runs": {fence(v1alpha1.PhasePowering, nil), ""},
		"held": {fence(v1alpha1.PhaseDetected, func(f *v1alpha1.NodeFence) {
			f.Status.Hold = &v1alpha1.Hold{Reason: "Storm", Message: "half"}
		}), "Storm: half"},
		"given up": {fence(v1alpha1.PhaseGivenUp, func(f *v1alpha1.NodeFence) {
			f.Status.Abort = v1alpha1.AbortGaveUp
		}), "a human: GaveUp"},
		"paused": {fence(v1alpha1.PhaseIsolated, func(f *v1alpha1.NodeFence) {
			f.Annotations = map[string]string{v1alpha1.AnnotationPaused: "true"}
		}), "an admin, who has paused it"},
		"stopped": {fence(v1alpha1.PhaseIsolated, func(f *v1alpha1.NodeFence) {
			f.Annotations = map[string]string{v1alpha1.AnnotationStop: "hold"}
		}), "nothing: it was stopped (hold)"},
	} {
		assert.Equal(t, c.waits, FenceOf(c.fence).Wait(), name)
	}
}
