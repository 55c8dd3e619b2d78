package shardstate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/shardrecord"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

func newTracker(t *testing.T) *shardstate.Tracker {
	t.Helper()
	r, err := shardstate.NewTracker(shardstate.Config{Namespace: "ns", Ring: "r"})
	require.NoError(t, err)
	return r
}

// at is a time of the sharder's clock, as long after its beginning.
func at(d time.Duration) shardstate.Reading {
	return shardstate.Reading{Monotonic: d + 1000*time.Hour, Wall: time.Unix(0, 0)}
}

const (
	s       = time.Second
	collect = time.Hour
)

// change is something that is different about a lease.
type change func(*coordinationv1.Lease)

// record is the lease of shard a in epoch 3, held, unless changed. Its times are years off.
func record(changes ...change) *coordinationv1.Lease {
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "5",
			Labels:      map[string]string{shardlease.RingLabel: "r"},
			Annotations: map[string]string{shardrecord.EpochAnnotation: "3"},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To(int32(15)), LeaseTransitions: ptr.To(int32(2)),
			AcquireTime: ptr.To(metav1.NewMicroTime(time.Date(1984, 1, 1, 0, 0, 0, 0, time.UTC))),
			RenewTime:   ptr.To(metav1.NewMicroTime(time.Date(2084, 1, 1, 0, 0, 0, 0, time.UTC))),
		},
	}
	marked(l)
	for _, c := range changes {
		c(l)
	}
	return l
}

// marked marks the present term, or its release.
func marked(l *coordinationv1.Lease) { lease.SetProcess(l, "") }

func renewed(n int) change {
	return func(l *coordinationv1.Lease) {
		l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Date(2000, 1, 1, 0, 0, n, 0, time.UTC)))
		l.ResourceVersion = fmt.Sprint(100 + n)
	}
}

func annotated(key, value string) change {
	return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
}

func number(n string) change { return annotated(shardrecord.EpochAnnotation, n) }
func labelled(ring string) change {
	return func(l *coordinationv1.Lease) { l.Labels[shardlease.RingLabel] = ring }
}
func unlabelled(l *coordinationv1.Lease) { l.Labels = nil }
func uid(u types.UID) change             { return func(l *coordinationv1.Lease) { l.UID = u } }
func held(by string) change              { return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &by } }

func lasting(seconds int32) change {
	return func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = &seconds }
}

func named(name string) change {
	return func(l *coordinationv1.Lease) { l.Name = name; held(name)(l); marked(l) }
}

// released is what a shard leaves behind.
func released(l *coordinationv1.Lease) {
	lasting(1)(l)
	held("")(l)
	marked(l)
}

// takenOver is what a sharder leaves behind.
func takenOver(l *coordinationv1.Lease) {
	held(shardlease.Sharder)(l)
	marked(l)
}

func returning(seconds string) func(*coordinationv1.Lease) {
	return annotated(shardrecord.ReturnAnnotation, seconds)
}

func TestStates(t *testing.T) {
	const (
		gone, malformed, dead, orphaned = shardstate.Gone, shardstate.Malformed, shardstate.Dead, shardstate.Orphaned
		ready, away, expired, uncertain = shardstate.Ready, shardstate.Away, shardstate.Expired, shardstate.Uncertain
	)
	type step struct {
		after time.Duration
		want  shardstate.State
	}
	living := []step{
		{0, ready},
		{15*s - 1, ready},
		{15 * s, expired},
		{30*s - 1, expired},
		{30 * s, uncertain},
		{1000 * time.Hour, uncertain},
	}
	missed := []step{{0, expired}, {30*s - 1, expired}, {30 * s, uncertain}, {1000 * time.Hour, uncertain}}
	ended := []step{{0, dead}, {collect - 1, dead}, {collect, orphaned}}
	bad := []step{{0, malformed}, {1000 * time.Hour, malformed}}
	for _, c := range []struct {
		name  string
		lease *coordinationv1.Lease
		want  []step
		why   string // it is malformed
	}{
		{"held", record(), living, ""},
		{"held for a minute", record(lasting(60)), []step{{0, ready}, {60 * s, expired}, {120 * s, uncertain}}, ""},
		{"label missing", record(unlabelled), living, ""},
		{"released", record(released), ended, ""},
		{
			"released for a while", record(released, returning("20")),
			[]step{{0, away}, {20*s - 1, away}, {20 * s, dead}, {collect, orphaned}},
			"",
		},
		{"released for too long a while", record(released, returning("3601")), ended, ""},
		{"released for no time", record(released, returning("-1")), ended, ""},
		{"emptied, though it is expected back", record(held(""), returning("20")), missed, ""},
		{"held, and expected back", record(returning("20")), living, ""},
		{"taken, though it was expected back", record(takenOver, returning("20")), ended, ""},
		{"taken by a sharder", record(takenOver), ended, ""},
		{"emptied", record(held("")), missed, ""},
		{"emptied, with an older mark", record(released, func(l *coordinationv1.Lease) {
			l.Spec.LeaseTransitions = ptr.To(int32(3))
		}), missed, ""},
		{"taken in the sharder's name", record(held(shardlease.Sharder)), missed, ""},
		{"held by another", record(held("b")), bad, `spec.holderIdentity must be the name of the Lease (got "b")`},
		{
			"held, but not by the rules", record(annotated("bellwether.dev/term", "/x/2")), bad,
			"not written by a shard",
		},
		{
			"no epoch", record(func(l *coordinationv1.Lease) { l.Annotations = nil }), bad,
			"annotation ring.bellwether.dev/epoch is missing",
		},
		{"released without an epoch", record(released, number("")), bad, `must be a whole number (got "")`},
		{"epoch with a sign", record(number("+3")), bad, `(got "+3")`},
		{"epoch below zero", record(number("-3")), bad, `(got "-3")`},
		{"epoch with a zero", record(number("03")), bad, `(got "03")`},
		{"epoch too large", record(number("9223372036854775808")), bad, "whole number"},
		{
			"no duration", record(func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil }), bad,
			"spec.leaseDurationSeconds must be from 3s to 1h0m0s (got 0s)",
		},
		{"duration too short", record(lasting(2)), bad, "(got 2s)"},
		{"duration too long", record(lasting(3601)), bad, "(got 1h0m1s)"},
		{"of another ring", record(labelled("other")), bad, `is "other", not "r"`},
		{"name too long", record(named(strings.Repeat("a", 64))), bad, "no more than 63"},
		{
			"coordinated", record(func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = ptr.To("b") }), bad,
			"coordinated leader election",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, name := newTracker(t), c.lease.Name
			r.ObserveRead(name, shardlease.Epoch{}, c.lease, at(0))
			for _, step := range c.want {
				state := r.State(name, at(step.after))
				require.Equal(t, step.want, state, "after %v", step.after)
				assert.Equal(t, state.Member(), len(r.Members(at(step.after))) == 1)
				_, ok := r.Takeover(name, at(step.after))
				if state != malformed {
					assert.Equal(t, state == uncertain, ok)
				}
				_, ok = r.Deletion(name, at(step.after))
				assert.Equal(t, state == orphaned, ok)
			}
			if c.why == "" {
				assert.NoError(t, r.Problem(name))
			} else {
				require.ErrorContains(t, r.Problem(name), c.why)
				assert.ErrorContains(t, r.Problem(name), "ns/"+name)
			}
		})
	}
	assert.Equal(t, gone, newTracker(t).State("a", at(0)))
}

func TestOnlyChangesOfTheClaimCount(t *testing.T) {
	r := newTracker(t)
	r.Observe(record(), at(0))
	r.Observe(record(annotated("x", "y"), func(l *coordinationv1.Lease) { l.ResourceVersion = "6" }), at(29*s))
	assert.Equal(t, shardstate.Uncertain, r.State("a", at(30*s)), "it was not renewed")
	a, ok := r.Takeover("a", at(30*s))
	require.True(t, ok)
	assert.Equal(t, "6", a.Lease().ResourceVersion)
	r.Observe(record(renewed(1)), at(31*s))
	assert.Equal(t, shardstate.Ready, r.State("a", at(45*s)))
	r.Observe(record(), at(46*s))
	assert.Equal(t, shardstate.Ready, r.State("a", at(60*s)), "also one that was seen before: etcd was restored")
}

func TestLongestDurationOfATermCounts(t *testing.T) {
	r := newTracker(t)
	r.Observe(record(lasting(60)), at(0))
	r.Observe(record(lasting(5)), at(0)) // an edit that the shard may not know
	assert.Equal(t, shardstate.Ready, r.State("a", at(60*s-1)))
	r.Observe(record(lasting(5), held("")), at(60*s))
	assert.Equal(t, shardstate.Expired, r.State("a", at(180*s-1)))
	r.ObserveAbsence("a", at(180*s))
	assert.Equal(t, shardstate.Expired, r.State("a", at(300*s-1)))
	assert.Equal(t, shardstate.EpochActive, r.EpochState("a", shardlease.Epoch{LeaseUID: "u", Number: 3}, at(300*s-1)))
	r.Observe(record(uid("v"), lasting(5), func(l *coordinationv1.Lease) {
		l.Spec.LeaseTransitions = ptr.To(int32(0))
		marked(l)
	}), at(301*s))
	assert.Equal(t, shardstate.Expired, r.State("a", at(306*s)), "another term")
}

// TestVerdicts is the rule of when an epoch is over.
func TestVerdicts(t *testing.T) {
	const live, over, unread, unproven = shardstate.EpochActive, shardstate.EpochEnded, shardstate.EpochUnknown,
		shardstate.EpochNeedsTakeover
	// When nothing is said, the lease is that of epoch u/3, seen at 0.
	for _, c := range []struct {
		name  string
		see   func(r *shardstate.Tracker)
		epoch string
		after time.Duration
		want  shardstate.EpochState
	}{
		{"nothing is known", func(*shardstate.Tracker) {}, "u/3", 0, unread},
		{"not listed", func(r *shardstate.Tracker) { r.List(nil, at(0)) }, "u/3", 1000 * time.Hour, unread},
		{"held", saw(record()), "u/3", 0, live},
		{"expired for long, and not taken", saw(record()), "u/3", 1000 * time.Hour, live},
		{"a later epoch", saw(record()), "u/2", 0, over},
		{"a later epoch, though malformed", saw(record(held("b"))), "u/2", 0, over},
		{"an earlier epoch", saw(record()), "u/4", 0, unread},
		{"an earlier epoch, for long", saw(record()), "u/4", 1000 * time.Hour, unread},
		{"released", saw(record(released)), "u/3", 0, over},
		{"released for a while", saw(record(released, returning("20"))), "u/3", 20*s - 1, live},
		{"released for a while, which is over", saw(record(released, returning("20"))), "u/3", 20 * s, over},
		{"released for a while, an epoch before", saw(record(released, returning("20"))), "u/2", 0, over},
		{"back in time", saw(record(released, returning("20")), record(number("4"), returning("20"))), "u/3", 0, over},
		{"released for a while, then deleted", missed(record(released, returning("20"))), "u/3", 0, over},
		{"taken by a sharder", saw(record(takenOver)), "u/3", 0, over},
		{"emptied just now", saw(record(held(""))), "u/3", 30*s - 1, live},
		{"emptied", saw(record(held(""))), "u/3", 30 * s, over},
		{"in the sharder's name, just now", saw(record(held(shardlease.Sharder))), "u/3", 30*s - 1, live},
		{"in the sharder's name", saw(record(held(shardlease.Sharder))), "u/3", 30 * s, over},
		{"held by another", saw(record(held("b"))), "u/3", 1000 * time.Hour, live},
		{"without an epoch", saw(record(number("x"))), "u/2", 1000 * time.Hour, live},

		{"deleted just now", missed(record()), "u/3", 30*s - 1, live},
		{"deleted, and not proven", missed(record()), "u/3", 30 * s, unproven},
		{"released, then deleted", missed(record(released)), "u/3", 0, over},
		{"taken, then deleted", missed(record(takenOver)), "u/2", 0, over},
		{"released, returned unseen, then deleted", missed(record(released)), "u/4", 30*s - 1, live},
		{"a later epoch, then deleted", missed(record()), "u/2", 0, over},
		{"remade just now", saw(record(), record(uid("v"))), "u/3", 30*s - 1, live},
		{"remade", saw(record(), record(uid("v"))), "u/3", 30 * s, over},
		{"remade, with a lower number", saw(record(), record(uid("v"), number("1"))), "u/3", 30 * s, over},
		{"deleted, then remade", func(r *shardstate.Tracker) {
			r.Observe(record(), at(-20*s))
			r.ObserveAbsence("a", at(-10*s))
			r.Observe(record(uid("v")), at(0))
		}, "u/3", 20 * s, over},
		{"its label was removed for a while", func(r *shardstate.Tracker) {
			r.Observe(record(), at(-20*s))
			r.ObserveAbsence("a", at(-10*s))
			r.Observe(record(), at(0))
		}, "u/3", 1000 * time.Hour, live},

		{"another lease, which may be older", saw(record()), "v/1", 1000 * time.Hour, unread},
		{"read: another lease", read(record(), "v/1"), "v/1", 30*s - 1, live},
		{"read: another lease, for long", read(record(), "v/1"), "v/1", 30 * s, over},
		{"read: the lease", read(record(), "u/3"), "u/3", 1000 * time.Hour, live},
		{"read: no lease", read(nil, "u/3"), "u/3", 30*s - 1, live},
		{"read: no lease, for long", read(nil, "u/3"), "u/3", 30 * s, unproven},
		{"read: an earlier epoch", read(record(), "u/4"), "u/4", 0, unread},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTracker(t)
			c.see(r)
			assert.Equal(t, c.want, r.EpochState("a", epochOf(c.epoch), at(c.after)))
		})
	}
}

// saw, missed and read feed a tracker at 0.
func saw(leases ...*coordinationv1.Lease) func(*shardstate.Tracker) {
	return func(r *shardstate.Tracker) {
		for _, l := range leases {
			r.Observe(l, at(0))
		}
	}
}

func missed(l *coordinationv1.Lease) func(*shardstate.Tracker) {
	return func(r *shardstate.Tracker) {
		r.Observe(l, at(-s))
		r.ObserveAbsence("a", at(0))
	}
}

func read(l *coordinationv1.Lease, epoch string) func(*shardstate.Tracker) {
	return func(r *shardstate.Tracker) { r.ObserveRead("a", epochOf(epoch), l, at(0)) }
}

func epochOf(s string) shardlease.Epoch {
	var e shardlease.Epoch
	u, n, _ := strings.Cut(s, "/")
	e.LeaseUID = types.UID(u)
	_, _ = fmt.Sscan(n, &e.Number)
	return e
}

func TestDeletedLeaseIsProvenByCreatingIt(t *testing.T) {
	r := newTracker(t)
	r.Observe(record(lasting(20)), at(0))
	assert.True(t, r.ObserveAbsence("a", at(10*s)))
	assert.Equal(t, shardstate.Expired, r.State("a", at(50*s-1)),
		"a member, or everything would move while it restarts")
	_, ok := r.Epoch("a", at(20*s))
	assert.False(t, ok, "but nothing can be assigned to it")
	assert.Equal(t, shardstate.Uncertain, r.State("a", at(50*s)))
	a, ok := r.Takeover("a", at(50*s))
	require.True(t, ok)
	l := a.Lease()
	assert.Empty(t, l.UID)
	assert.Equal(t, map[string]string{shardlease.RingLabel: "r"}, l.Labels)
	assert.Equal(t, "0", l.Annotations[shardrecord.EpochAnnotation])
	l.UID, l.ResourceVersion = "v", "9"
	assert.True(t, r.Observe(l, at(51*s)))
	assert.Equal(t, shardstate.EpochEnded, r.EpochState("a", epochOf("u/3"), at(51*s)))
	assert.Equal(t, shardstate.Dead, r.State("a", at(51*s)))
	assert.True(t, r.ObserveAbsence("a", at(2*collect)), "collected")
	assert.Equal(t, shardstate.Gone, r.State("a", at(2*collect)))
	assert.Empty(t, r.Shards(at(2*collect)))
	_, ok = r.Takeover("a", at(2*collect+29*s))
	assert.False(t, ok)
}

func TestAcquisitionIsOfTheVersionSeen(t *testing.T) {
	r := newTracker(t)
	r.Observe(record(annotated(shardrecord.IncarnationAnnotation, "pod-1"), annotated("x", "y"), lasting(20)), at(0))
	a, ok := r.Takeover("a", at(40*s))
	require.True(t, ok)
	l := a.Lease()
	assert.Equal(t, types.UID("u"), l.UID)
	assert.Equal(t, "5", l.ResourceVersion)
	assert.Equal(t, shardlease.Sharder, *l.Spec.HolderIdentity)
	assert.EqualValues(t, 20, *l.Spec.LeaseDurationSeconds, "what the shard has to wait")
	assert.EqualValues(t, 3, *l.Spec.LeaseTransitions)
	assert.Equal(t, "3", l.Annotations[shardrecord.EpochAnnotation])
	assert.NotContains(t, l.Annotations, shardrecord.IncarnationAnnotation)
	assert.Equal(t, "y", l.Annotations["x"])
	assert.True(t, r.Observe(l, at(41*s)))
	assert.Equal(t, shardstate.Dead, r.State("a", at(41*s)))
	_, ok = r.Takeover("a", at(1000*time.Hour))
	assert.False(t, ok, "exactly once")
}

func TestMalformedLeasesAreTakenUnlessTheyAreRenewed(t *testing.T) {
	for _, c := range []struct {
		name  string
		lease *coordinationv1.Lease
		want  bool
	}{
		{"held by another", record(held("b")), true},
		{"for years", record(lasting(1 << 30)), true},
		{"for a moment", record(lasting(1)), true},
		{"without an epoch", record(number("")), false},
		{"of another ring", record(labelled("other")), false},
		{"coordinated", record(func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = ptr.To("b") }), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTracker(t)
			r.ObserveRead("a", shardlease.Epoch{}, c.lease, at(0))
			_, ok := r.Takeover("a", at(30*s-1))
			assert.False(t, ok)
			a, ok := r.Takeover("a", at(30*s))
			require.Equal(t, c.want, ok)
			if ok {
				r.Observe(a.Lease(), at(31*s))
				assert.Equal(t, shardstate.Dead, r.State("a", at(31*s)))
				assert.EqualValues(t, 15, *a.Lease().Spec.LeaseDurationSeconds)
			}
		})
	}
}

func TestRosterTellsWhatHasChanged(t *testing.T) {
	r := newTracker(t)
	b := record(named("b"))
	assert.Equal(t, []string{"a", "b"}, r.List([]*coordinationv1.Lease{b, record()}, at(0)))
	assert.Empty(t, r.List([]*coordinationv1.Lease{b, record(renewed(1))}, at(1*s)))
	assert.Equal(t, []string{"a", "b"}, r.Members(at(1*s)))
	for _, c := range []struct {
		name string
		l    *coordinationv1.Lease
		want bool
	}{
		{"renewed", record(renewed(2)), false},
		{"label removed", record(renewed(2), unlabelled), false},
		{"next epoch, the end of the last one unseen", record(renewed(3), number("4")), true},
		{"released", record(released, number("4")), true},
		{"another lease", record(uid("v"), released, number("4")), true},
	} {
		assert.Equal(t, c.want, r.Observe(c.l, at(2*s)), c.name)
	}
	assert.Equal(t, []string{"a", "b"}, r.List(nil, at(3*s)))
	assert.False(t, r.Observe(record(named("c"), labelled("other")), at(4*s)), "of another ring")
	assert.False(t, r.Observe(record(named("d"), unlabelled), at(4*s)))
	assert.Equal(t, []string{"b"}, r.Shards(at(4*s)))
}

func TestNextIsWhenSomethingChangesByItself(t *testing.T) {
	r := newTracker(t)
	_, ok := r.Next(at(0))
	assert.False(t, ok)
	r.Observe(record(), at(0))
	r.Observe(record(named("b"), lasting(60)), at(0))
	r.Observe(record(named("c"), released), at(0))
	r.Observe(record(named("e"), released, returning("25")), at(0))
	r.ObserveRead("d", epochOf("x/1"), record(named("d"), uid("y"), released), at(10*s))
	last := at(0)
	states := func(now shardstate.Reading) string {
		said := fmt.Sprint(r.EpochState("d", epochOf("x/1"), now))
		for _, shard := range []string{"a", "b", "c", "d", "e"} {
			said += fmt.Sprint(" ", r.State(shard, now))
		}
		return said
	}
	var changes []time.Duration
	for {
		wait, ok := r.Next(last)
		if !ok {
			break
		}
		require.Positive(t, wait)
		next := last
		next.Monotonic += wait
		before := next
		before.Monotonic--
		assert.Equal(t, states(last), states(before))
		if states(next) != states(last) {
			changes = append(changes, next.Monotonic-at(0).Monotonic)
		}
		last = next
	}
	assert.Equal(t, []time.Duration{15 * s, 25 * s, 30 * s, 40 * s, 60 * s, 120 * s, collect, collect + 10*s}, changes)
}

func TestRosterForgetsShardsThatAreLongGone(t *testing.T) {
	r := newTracker(t)
	r.Observe(record(released), at(0))
	r.ObserveAbsence("a", at(collect))
	assert.Equal(t, shardstate.EpochEnded, r.EpochState("a", epochOf("u/3"), at(collect)))
	r.List(nil, at(2*collect+time.Minute))
	assert.Equal(t, shardstate.EpochUnknown, r.EpochState("a", epochOf("u/3"), at(2*collect+time.Minute)),
		"it can be asked for")
}
