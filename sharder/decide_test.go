package sharder

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rootWith is a root in the given state; record is nil if it has no valid one.
func rootWith(label string, drained bool, r *record) root {
	o := root{uid: "u", label: label, drain: drained}
	if r != nil {
		o.record, o.recorded = *r, true
	}
	return o
}

func recordWith(st state, by tenant, left ...tenant) *record {
	return &record{UID: "u", Shard: by.Shard, LeaseUID: by.LeaseUID, Epoch: by.Epoch, State: st, Left: left}
}

func liveClaim(c tenant) claim { return claim{c, live, true} }

// The rule for one root. The first rule that matches counts; t is the owner on the ring.
func TestDecision(t *testing.T) {
	type row struct {
		name   string
		label  string
		drain  bool
		record *record
		owner  life // of the record's epoch
		target tenant
		claims []claim
		want   decision
	}
	given := func(to tenant) decision {
		return decision{verb: assign, label: to.Shard, record: recordWith(owned, to)}
	}
	probed := func(by tenant, left ...tenant) decision {
		r := recordWith(owned, by, left...)
		r.Probed = true
		return decision{verb: probe, label: by.Shard, drain: true, record: r}
	}
	for rule, rows := range map[string][]row{
		"1: owned, epoch over": {
			{"assign t directly", "a", false, recordWith(owned, inA), over, inB, nil, given(inB)},
			{"drained: assign nulls it", "a", true, recordWith(owned, inA), over, inB, nil, given(inB)},
			{"t is the same shard: stamp again", "a", false, recordWith(owned, inA), over, inA2, nil, given(inA2)},
			{"whatever the label", "c", true, recordWith(owned, inA), over, inB, nil, given(inB)},
			{"somebody left: as free", "a", true, recordWith(owned, inA, inC, inB), over, inB, []claim{liveClaim(inC), liveClaim(inB)}, probed(inC, inB)},
			{"those left are over too", "a", true, recordWith(owned, inA, inC, inB), over, inB, []claim{{inC, over, false}, liveClaim(inB)}, given(inB)},
			{"not yet known: read the Lease", "a", false, recordWith(owned, inA2), unread, inB, nil, decision{verb: reread, about: inA2}},
			{"not yet proven: wait", "a", false, recordWith(owned, inA), unproven, inB, nil, decision{verb: hold, about: inA}},
		},
		"2: owned, live, label differs from the record: restore it, never hand over": {
			{"label removed", "", false, recordWith(owned, inA), live, inA, nil, decision{verb: restore, label: "a"}},
			{"label of another live shard", "b", false, recordWith(owned, inA), live, inA, nil, decision{verb: restore, label: "a"}},
			{"label of a shard that does not exist", "x", false, recordWith(owned, inA), live, inA, nil, decision{verb: restore, label: "a"}},
			{"label of t: as well", "b", false, recordWith(owned, inA), live, inB, nil, decision{verb: restore, label: "a", drain: true}},
			{"with drain if somebody is left", "", false, recordWith(owned, inA, inB), live, inA, []claim{liveClaim(inB)}, decision{verb: restore, label: "a", drain: true}},
			{"without, if t is the shard", "", true, recordWith(owned, inA), live, inA, nil, decision{verb: restore, label: "a"}},
		},
		"3: owned, live, somebody left: keep drained, never withdraw": {
			{"drained", "a", true, recordWith(owned, inA, inB), live, inB, []claim{liveClaim(inB)}, decision{verb: await}},
			{"drained, t is the shard", "a", true, recordWith(owned, inA, inB), live, inA, []claim{liveClaim(inB)}, decision{verb: await}},
			{"drain removed", "a", false, recordWith(owned, inA, inB), live, inA, []claim{liveClaim(inB)}, decision{verb: drain, label: "a", drain: true}},
		},
		"4: owned, live": {
			{"t differs: drain", "a", false, recordWith(owned, inA), live, inB, nil, decision{verb: drain, label: "a", drain: true}},
			{"drained already", "a", true, recordWith(owned, inA), live, inB, nil, decision{verb: await}},
			{"t is the same again: withdraw", "a", true, recordWith(owned, inA), live, inA, nil, decision{verb: withdraw, label: "a"}},
			{"nothing to do", "a", false, recordWith(owned, inA), live, inA, nil, decision{verb: keep}},
			{"t is another process of the same name: it waits", "a", false, recordWith(owned, inA), live, inAx, nil, decision{verb: hold, about: inA}},
		},
		"5: free": {
			{"assign t", "", false, recordWith(free, inA), live, inB, nil, given(inB)},
			{"back to the same shard", "", false, recordWith(free, inA), live, inA, nil, given(inA)},
			{"a user's label and drain do not count", "c", true, recordWith(free, inA), live, inB, nil, given(inB)},
			{"the life of who let go does not matter", "", false, recordWith(free, inA), unproven, inB, nil, given(inB)},
			{"probe who is left", "", false, recordWith(free, inA, inC, inB), live, inB, []claim{liveClaim(inC), liveClaim(inB)}, probed(inC, inB)},
			{"only t is left", "", false, recordWith(free, inA, inB), live, inB, []claim{liveClaim(inB)}, given(inB)},
			{"t was left, and is another now", "", false, recordWith(free, inA, inB), live, inC, []claim{liveClaim(inB)}, probed(inB, inC)},
			{"who is left may be at work, but cannot be asked", "", false, recordWith(free, inA, inC), live, inB, []claim{{inC, live, false}}, decision{verb: hold, about: inC}},
			{"an earlier process of t's name is left", "", false, recordWith(free, inB, inA), live, inAx, []claim{{inA, live, false}}, decision{verb: hold, about: inA}},
			{"an earlier epoch of t is left", "", false, recordWith(free, inB, inA), live, inA2, []claim{{inA, over, false}}, given(inA2)},
		},
		"6: no valid record, whatever the label: those who owned it since the ring was settled": {
			{"only t: one patch", "", false, nil, live, inB, []claim{liveClaim(inB)}, given(inB)},
			{"nobody", "", false, nil, live, inB, nil, given(inB)},
			{"labelled by a user", "a", true, nil, live, inB, []claim{liveClaim(inB)}, given(inB)},
			{"others: probe them in turn, then t", "", false, nil, live, inB, []claim{liveClaim(inA), liveClaim(inB), liveClaim(inC)}, probed(inA, inC, inB)},
			{"others that are over", "", false, nil, live, inB, []claim{{inA, over, false}, liveClaim(inB)}, given(inB)},
			{"others not proven", "", false, nil, live, inB, []claim{{inA, unproven, false}, liveClaim(inC)}, decision{verb: hold, about: inA}},
			{"others not read", "", false, nil, live, inB, []claim{{inA, unread, false}}, decision{verb: reread, about: inA}},
			{"t in an epoch that is over", "", false, nil, live, inA2, []claim{{inA, over, false}}, given(inA2)},
		},
	} {
		for _, r := range rows {
			t.Run(rule+"/"+r.name, func(t *testing.T) {
				s := situation{root: rootWith(r.label, r.drain, r.record), target: liveClaim(r.target), owner: r.owner, claims: r.claims}
				assert.Equal(t, r.want, decide(s))
			})
		}
	}
}

func TestNothingIsAssignedToAShardThatCannotTakeIt(t *testing.T) {
	for _, o := range []root{rootWith("", false, nil), rootWith("", false, recordWith(free, inB)), rootWith("b", false, recordWith(owned, inB))} {
		s := situation{root: o, target: claim{inA, live, false}, owner: over}
		assert.Equal(t, decision{verb: hold, about: inA}, decide(s))
	}
}

// Who drains an object says to whom its shard is to give it, if nothing else has to be seen to.
func TestWhoIsNext(t *testing.T) {
	bequest := func(by, to tenant) *record {
		r := recordWith(owned, by)
		r.Next = &to
		return r
	}
	of := func(drained bool, r *record) situation {
		return situation{root: rootWith("a", drained, r), target: liveClaim(inB), owner: live, resident: true}
	}
	given := func(to tenant, r *record) situation { // by a drain that says so
		s := of(true, r)
		s.record.Next, s.heir = &to, &to
		return s
	}
	plain := decision{verb: drain, label: "a", drain: true}
	ordered := decision{verb: drain, label: "a", drain: true, record: bequest(inA, inB)}
	for name, test := range map[string]struct {
		of     func() situation
		change func(s *situation)
		want   decision
	}{
		"the target": {func() situation { return of(false, recordWith(owned, inA)) }, nil, ordered},
		"nobody: the children go first": {
			func() situation { return of(false, recordWith(owned, inA)) }, func(s *situation) { s.family = true }, plain,
		},
		"nobody: others are left to be asked": {
			func() situation { return of(false, recordWith(owned, inA, inC)) }, nil, plain,
		},
		"nobody: the target cannot take it": {
			func() situation { return of(false, recordWith(owned, inA)) }, func(s *situation) { s.target.current = false }, plain,
		},
		"nobody: the owner is no member, and may be one again": {
			func() situation { return of(false, recordWith(owned, inA)) }, func(s *situation) { s.resident = false }, plain,
		},
		"as is said already":   {func() situation { return given(inB, recordWith(owned, inA)) }, nil, decision{verb: await}},
		"another than is said": {func() situation { return given(inC, recordWith(owned, inA)) }, nil, ordered},
		"another, to whom it cannot be given": {
			func() situation { return given(inC, recordWith(owned, inA)) }, func(s *situation) { s.target.current = false }, plain,
		},
		"somebody else has drained it": {func() situation { return of(true, bequest(inA, inC)) }, nil, decision{verb: await}},
		"nobody any more: it stays": {
			func() situation { return given(inC, recordWith(owned, inA)) }, func(s *situation) { s.target = liveClaim(inA) },
			decision{verb: withdraw, label: "a", record: recordWith(owned, inA)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.of()
			if test.change != nil {
				test.change(&s)
			}
			assert.Equal(t, test.want, decide(s))
		})
	}
}

func TestPlacedIsWithItsOwnerAndInNobodyElsesHands(t *testing.T) {
	for verb, want := range map[verb]bool{
		keep: true, assign: true, withdraw: true, restore: true,
		await: false, hold: false, reread: false,
	} {
		assert.Equal(t, want, decision{verb: verb}.placed(), verb)
	}
	for _, verb := range []verb{drain, probe, restore} {
		assert.False(t, decision{verb: verb, drain: true}.placed(), verb)
	}
}

// What must hold of any situation, also of those that no rule-abiding history leads to.
func TestNoDecisionTakesARootFromWhoMayBeAtWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		someone := rapid.SampledFrom([]tenant{inA, inA2, inAx, inB, inC})
		lives := rapid.SampledFrom([]life{live, over, unread, unproven})
		target := rapid.SampledFrom([]tenant{inA, inB, inC}).Draw(t, "target")
		s := situation{target: claim{target, live, rapid.Bool().Draw(t, "current")}, owner: lives.Draw(t, "owner")}
		for _, c := range rapid.SliceOfNDistinct(someone, 0, 4, rapid.ID).Draw(t, "claims") {
			l := lives.Draw(t, "life")
			s.claims = append(s.claims, claim{c, l, l == live && rapid.Bool().Draw(t, "current")})
		}
		s.root = rootWith(rapid.SampledFrom([]string{"", "a", "b", "x"}).Draw(t, "label"), rapid.Bool().Draw(t, "drain"), nil)
		if st := rapid.SampledFrom([]state{"", owned, free}).Draw(t, "state"); st != "" {
			s.recorded, s.record = true, *recordWith(st, someone.Draw(t, "recorded"))
			for _, c := range s.claims {
				s.record.Left = append(s.record.Left, c.tenant)
			}
			if next := someone.Draw(t, "next"); rapid.Bool().Draw(t, "bequeathed") {
				s.record.Next = &next
				if s.drain {
					s.heir = &next
				}
			}
			s.resident, s.family = rapid.Bool().Draw(t, "resident"), rapid.Bool().Draw(t, "family")
		}
		d := decide(s)
		require.NotEmpty(t, d.verb)
		atWork := func(c tenant) bool { // may be, for all that is known
			if s.recorded && s.record.State == owned && s.record.tenant() == c {
				return s.owner != over
			}
			for _, k := range s.claims {
				if k.tenant == c {
					return k.life != over
				}
			}
			return false
		}
		if d.record == nil {
			return
		}
		if heir := d.record.Next; heir != nil {
			require.True(t, d.drain && *heir == target && s.target.current && s.resident && !s.family && len(s.record.Left) == 0, "%+v", d.record)
		}
		if s.recorded && d.record.State == owned && d.record.tenant() == s.record.tenant() && len(d.record.Left) == len(s.record.Left) {
			return // its owner keeps it, or is told to whom to give it
		}
		require.True(t, !s.recorded || s.record.State == free || s.owner == over, "the record of one who may be at work was replaced")
		for _, c := range s.claims {
			asked := d.record.tenant() == c.tenant
			for _, l := range d.record.Left {
				asked = asked || l == c.tenant
			}
			require.True(t, asked || !atWork(c.tenant), "%v was forgotten by %+v", c.tenant, d.record)
		}
		if !d.drain {
			require.Equal(t, target, d.record.tenant())
			for _, c := range s.claims {
				require.True(t, c.tenant == target || !atWork(c.tenant), "assigned while %v may be at work", c.tenant)
			}
		}
	})
}

func TestWhereTheChildrenOfARootAre(t *testing.T) {
	inA, inB := tenant{"a", "l", 1}, tenant{"b", "l", 1}
	recorded := func(r record) situation {
		return situation{root: root{record: r, recorded: true}, target: claim{tenant: inB}}
	}
	blank := func(claims ...tenant) situation {
		s := situation{target: claim{tenant: inB}}
		for _, c := range claims {
			s.claims = append(s.claims, claim{tenant: c, life: over})
		}
		return s
	}
	assert.Equal(t, origin{shard: "a"}, recorded(record{Shard: "a", State: free}).origin())
	assert.Equal(t, origin{shard: "b"}, recorded(record{Shard: "b", State: owned}).origin(), "of an earlier life")
	assert.Equal(t, origin{any: true}, recorded(record{Shard: "a", State: free, Probed: true}).origin())
	assert.Equal(t, origin{}, blank(inB).origin(), "new, or with the target")
	assert.Equal(t, origin{any: true}, blank(inA, inB).origin(), "though dead, it may have created some")
	assert.Equal(t, origin{any: true}, blank(tenant{"b", "l", 0}, inB).origin())
}

func TestWhomAChildFollows(t *testing.T) {
	of := func(state state, life life) situation {
		return situation{root: root{record: record{Shard: "a", State: state}, recorded: true}, owner: life}
	}
	shard, ok := of(owned, live).leader()
	assert.Equal(t, "a", shard)
	assert.True(t, ok)
	for _, s := range []situation{of(free, live), of(owned, over), of(owned, unread), of(owned, unproven), {}} {
		_, ok := s.leader()
		assert.False(t, ok, "whoever assigns the root has to find the child first")
	}
}
