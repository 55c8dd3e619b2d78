package protocol

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rootWith returns a root in the given state. r is nil if the root has no valid record.
func rootWith(label string, drained bool, r *Record) Root {
	o := Root{UID: "u", Label: label, Drain: drained}
	if r != nil {
		o.Record, o.Recorded = *r, true
	}
	return o
}

func recordWith(st state, by OwnerEpoch, left ...OwnerEpoch) *Record {
	return &Record{UID: "u", Shard: by.Shard, LeaseUID: by.LeaseUID, Epoch: by.Epoch, State: st, Left: left}
}

func liveClaim(c OwnerEpoch) Claim {
	return Claim{OwnerEpoch: c, EpochState: EpochActive, Current: true, Renewing: true}
}

// The first matching rule counts. In the names of the rows, t is the owner on the ring.
func TestDecision(t *testing.T) {
	type row struct {
		name   string
		label  string
		drain  bool
		record *Record
		owner  EpochState // of the record's epoch
		target OwnerEpoch
		claims []Claim
		want   Decision
	}
	given := func(to OwnerEpoch) Decision {
		return Decision{Verb: Assign, Label: to.Shard, Record: recordWith(StateOwned, to)}
	}
	probed := func(by OwnerEpoch, left ...OwnerEpoch) Decision {
		r := recordWith(StateOwned, by, left...)
		r.Probed = true
		return Decision{Verb: Probe, Label: by.Shard, Drain: true, Record: r}
	}
	why := map[string]Verb{} // each verb has reasons of its own
	for rule, rows := range map[string][]row{
		"1: owned, epoch over": {
			{"assign t directly", "a", false, recordWith(StateOwned, inA), EpochEnded, inB, nil, given(inB)},
			{"drained: assign nulls it", "a", true, recordWith(StateOwned, inA), EpochEnded, inB, nil, given(inB)},
			{
				"t is the same shard: stamp again", "a", false, recordWith(StateOwned, inA), EpochEnded, inA2, nil,
				given(inA2),
			},
			{"whatever the label", "c", true, recordWith(StateOwned, inA), EpochEnded, inB, nil, given(inB)},
			{
				"somebody left: as free", "a", true, recordWith(StateOwned, inA, inC, inB), EpochEnded, inB,
				[]Claim{liveClaim(inC), liveClaim(inB)},
				probed(inC, inB),
			},
			{
				"those left are over too", "a", true, recordWith(StateOwned, inA, inC, inB), EpochEnded, inB,
				[]Claim{{OwnerEpoch: inC, EpochState: EpochEnded}, liveClaim(inB)},
				given(inB),
			},
			{
				"not yet known: read the Lease", "a", false, recordWith(StateOwned, inA2), EpochUnknown, inB, nil,
				Decision{Verb: Reread, About: inA2},
			},
			{
				"not yet proven: wait", "a", false, recordWith(StateOwned, inA), EpochUnproven, inB, nil,
				Decision{Verb: Hold, About: inA},
			},
		},
		"2: owned, live, label differs from the record: restore it, never hand over": {
			{
				"label removed", "", false, recordWith(StateOwned, inA), EpochActive, inA, nil,
				Decision{Verb: Restore, Label: "a"},
			},
			{
				"label of another live shard", "b", false, recordWith(StateOwned, inA), EpochActive, inA, nil,
				Decision{Verb: Restore, Label: "a"},
			},
			{
				"label of a shard that does not exist", "x", false, recordWith(StateOwned, inA), EpochActive, inA, nil,
				Decision{Verb: Restore, Label: "a"},
			},
			{
				"label of t: as well", "b", false, recordWith(StateOwned, inA), EpochActive, inB, nil,
				Decision{Verb: Restore, Label: "a", Drain: true},
			},
			{
				"with drain if somebody is left", "", false, recordWith(StateOwned, inA, inB), EpochActive, inA,
				[]Claim{liveClaim(inB)},
				Decision{Verb: Restore, Label: "a", Drain: true},
			},
			{
				"without, if t is the shard", "", true, recordWith(StateOwned, inA), EpochActive, inA, nil,
				Decision{Verb: Restore, Label: "a"},
			},
		},
		"3: owned, live, somebody left: keep drained, never withdraw": {
			{
				"drained", "a", true, recordWith(StateOwned, inA, inB), EpochActive, inB,
				[]Claim{liveClaim(inB)},
				Decision{Verb: Await},
			},
			{
				"drained, t is the shard", "a", true, recordWith(StateOwned, inA, inB), EpochActive, inA,
				[]Claim{liveClaim(inB)},
				Decision{Verb: Await},
			},
			{
				"drain removed", "a", false, recordWith(StateOwned, inA, inB), EpochActive, inA,
				[]Claim{liveClaim(inB)},
				Decision{Verb: Drain, Label: "a", Drain: true},
			},
		},
		"4: owned, live": {
			{
				"t differs: drain", "a", false, recordWith(StateOwned, inA), EpochActive, inB, nil,
				Decision{Verb: Drain, Label: "a", Drain: true},
			},
			{"drained already", "a", true, recordWith(StateOwned, inA), EpochActive, inB, nil, Decision{Verb: Await}},
			{
				"t is the same again: withdraw", "a", true, recordWith(StateOwned, inA), EpochActive, inA, nil,
				Decision{Verb: Withdraw, Label: "a"},
			},
			{"nothing to do", "a", false, recordWith(StateOwned, inA), EpochActive, inA, nil, Decision{Verb: Keep}},
			{
				"t is another process of the same name: it waits", "a", false, recordWith(StateOwned, inA), EpochActive,
				inAx, nil,
				Decision{Verb: Hold, About: inA},
			},
		},
		"5: free": {
			{"assign t", "", false, recordWith(StateFree, inA), EpochActive, inB, nil, given(inB)},
			{"back to the same shard", "", false, recordWith(StateFree, inA), EpochActive, inA, nil, given(inA)},
			{
				"a user's label and drain do not count", "c", true, recordWith(StateFree, inA), EpochActive, inB, nil,
				given(inB),
			},
			{
				"the life of who let go does not matter", "", false, recordWith(StateFree, inA), EpochUnproven, inB,
				nil,
				given(inB),
			},
			{
				"probe who is left", "", false, recordWith(StateFree, inA, inC, inB), EpochActive, inB,
				[]Claim{liveClaim(inC), liveClaim(inB)},
				probed(inC, inB),
			},
			{
				"only t is left", "", false, recordWith(StateFree, inA, inB), EpochActive, inB,
				[]Claim{liveClaim(inB)},
				given(inB),
			},
			{
				"t was left, and is another now", "", false, recordWith(StateFree, inA, inB), EpochActive, inC,
				[]Claim{liveClaim(inB)},
				probed(inB, inC),
			},
			{
				"who is left may be at work, but cannot be asked", "", false, recordWith(StateFree, inA, inC),
				EpochActive, inB,
				[]Claim{{OwnerEpoch: inC, EpochState: EpochActive}},
				Decision{Verb: Hold, About: inC},
			},
			{
				"an earlier process of t's name is left", "", false, recordWith(StateFree, inB, inA), EpochActive, inAx,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochActive}},
				Decision{Verb: Hold, About: inA},
			},
			{
				"an earlier epoch of t is left", "", false, recordWith(StateFree, inB, inA), EpochActive, inA2,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochEnded}},
				given(inA2),
			},
		},
		"6: no valid record, whatever the label: those who owned it since the ring was settled": {
			{"only t: one patch", "", false, nil, EpochActive, inB, []Claim{liveClaim(inB)}, given(inB)},
			{"no other", "", false, nil, EpochActive, inB, nil, given(inB)},
			{"labelled by a user", "a", true, nil, EpochActive, inB, []Claim{liveClaim(inB)}, given(inB)},
			{
				"others: probe them in turn, then t", "", false, nil, EpochActive, inB,
				[]Claim{liveClaim(inA), liveClaim(inB), liveClaim(inC)},
				probed(inA, inC, inB),
			},
			{
				"others that are over", "", false, nil, EpochActive, inB,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochEnded}, liveClaim(inB)},
				given(inB),
			},
			{
				"others not proven", "", false, nil, EpochActive, inB,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochUnproven}, liveClaim(inC)},
				Decision{Verb: Hold, About: inA},
			},
			{
				"others not read", "", false, nil, EpochActive, inB,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochUnknown}},
				Decision{Verb: Reread, About: inA},
			},
			{
				"t in an epoch that is over", "", false, nil, EpochActive, inA2,
				[]Claim{{OwnerEpoch: inA, EpochState: EpochEnded}},
				given(inA2),
			},
		},
	} {
		for _, r := range rows {
			t.Run(rule+"/"+r.name, func(t *testing.T) {
				s := Situation{
					Root: rootWith(r.label, r.drain, r.record), Target: liveClaim(r.target), Owner: r.owner,
					Claims: r.claims,
				}
				got := Decide(s)
				assert.Equal(t, r.want, got)
				if said, ok := why[got.Why()]; assert.NotEmpty(t, got.Why()) && ok {
					assert.Equal(t, said, got.Verb, got.Why())
				}
				why[got.Why()] = got.Verb
			})
		}
	}
}

func TestNothingIsAssignedToAShardThatCannotTakeIt(t *testing.T) {
	for _, o := range []Root{
		rootWith("", false, nil), rootWith("", false, recordWith(StateFree, inB)),
		rootWith("b", false, recordWith(StateOwned, inB)),
	} {
		s := Situation{Root: o, Target: Claim{OwnerEpoch: inA, EpochState: EpochActive}, Owner: EpochEnded}
		assert.Equal(t, Decision{Verb: Hold, About: inA}, Decide(s))
	}
}

// A root stays where it is while its owner on the ring does not renew its Lease, and is not with its owner.
func TestNothingIsDrainedForAShardThatDoesNotRenew(t *testing.T) {
	for _, drained := range []bool{false, true} {
		s := Situation{
			Root:   rootWith("a", drained, recordWith(StateOwned, inA)),
			Target: Claim{OwnerEpoch: inB, Current: true}, Owner: EpochActive, Resident: true,
		}
		assert.Equal(t, Decision{Verb: Hold, About: inB}, Decide(s))
		assert.False(t, Decide(s).Placed())
		s.Target.Renewing = true
		assert.NotEqual(t, Hold, Decide(s).Verb)
	}
}

// What never had an owner goes to a living one, without a question to others.
func TestFirstOwner(t *testing.T) {
	dead, living := Claim{OwnerEpoch: inA, Current: true}, liveClaim(inB)
	for _, s := range []Situation{
		{Root: rootWith("", false, nil), Target: dead, Claims: []Claim{dead}},
		{Root: rootWith("", false, nil), Target: living, Claims: []Claim{dead, living}},
		{Root: rootWith("", false, nil), Target: liveClaim(inC), Claims: []Claim{{OwnerEpoch: inA}, liveClaim(inC)}},
		{Root: rootWith("", false, nil), Target: living, Claims: []Claim{liveClaim(inA), living}},
	} {
		require.True(t, s.AsksOthers(Decide(s)), "%+v", Decide(s))
		_, d := s.First(living)
		assert.Equal(t, Decision{Verb: Assign, Label: "b", Record: recordWith(StateOwned, inB)}, d)
	}
	for _, s := range []Situation{
		{Root: rootWith("", false, nil), Target: living, Claims: []Claim{living}},
		{
			Root: rootWith("", false, nil), Target: living,
			Claims: []Claim{{OwnerEpoch: inA, EpochState: EpochEnded}, living},
		},
	} {
		assert.False(t, s.AsksOthers(Decide(s)), "%+v", Decide(s))
	}
}

// A drain names the successor if nothing else must happen first.
func TestWhoIsNext(t *testing.T) {
	bequest := func(by, to OwnerEpoch) *Record {
		r := recordWith(StateOwned, by)
		r.Next = &to
		return r
	}
	of := func(drained bool, r *Record) Situation {
		return Situation{Root: rootWith("a", drained, r), Target: liveClaim(inB), Owner: EpochActive, Resident: true}
	}
	given := func(to OwnerEpoch, r *Record) Situation { // by a drain that says so
		s := of(true, r)
		s.Record.Next, s.successor = &to, &to
		return s
	}
	plain := Decision{Verb: Drain, Label: "a", Drain: true}
	ordered := Decision{Verb: Drain, Label: "a", Drain: true, Record: bequest(inA, inB)}
	for name, test := range map[string]struct {
		of     func() Situation
		change func(s *Situation)
		want   Decision
	}{
		"the target": {func() Situation { return of(false, recordWith(StateOwned, inA)) }, nil, ordered},
		"none: the children go first": {
			func() Situation {
				return of(false, recordWith(StateOwned, inA))
			}, func(s *Situation) { s.family = true }, plain,
		},
		"none: others are left to be asked": {
			func() Situation { return of(false, recordWith(StateOwned, inA, inC)) }, nil, plain,
		},
		"none: the target cannot take it": {
			func() Situation {
				return of(false, recordWith(StateOwned, inA))
			}, func(s *Situation) { s.Target.Current = false },
			plain,
		},
		"none: the owner is no member, and may be one again": {
			func() Situation {
				return of(false, recordWith(StateOwned, inA))
			}, func(s *Situation) { s.Resident = false }, plain,
		},
		"none: it is diverted, and the history may forget that": {
			func() Situation {
				return of(false, recordWith(StateOwned, inA))
			}, func(s *Situation) { s.Diverted = true }, plain,
		},
		"as is said already": {
			func() Situation { return given(inB, recordWith(StateOwned, inA)) }, nil, Decision{Verb: Await},
		},
		"another than is said": {func() Situation { return given(inC, recordWith(StateOwned, inA)) }, nil, ordered},
		"another, to whom it cannot be given": {
			func() Situation {
				return given(inC, recordWith(StateOwned, inA))
			}, func(s *Situation) { s.Target.Current = false },
			plain,
		},
		"somebody else has drained it": {
			func() Situation { return of(true, bequest(inA, inC)) }, nil,
			Decision{Verb: Await},
		},
		"none any more: it stays": {
			func() Situation { return given(inC, recordWith(StateOwned, inA)) },
			func(s *Situation) { s.Target = liveClaim(inA) },
			Decision{Verb: Withdraw, Label: "a", Record: recordWith(StateOwned, inA)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.of()
			if test.change != nil {
				test.change(&s)
			}
			assert.Equal(t, test.want, Decide(s))
		})
	}
}

func TestPlacedIsWithItsOwnerAndNoOther(t *testing.T) {
	for verb, want := range map[Verb]bool{
		Keep: true, Assign: true, Withdraw: true, Restore: true,
		Await: false, Hold: false, Reread: false, Suspend: false,
	} {
		assert.Equal(t, want, Decision{Verb: verb}.Placed(), verb)
	}
	for _, verb := range []Verb{Drain, Probe, Restore} {
		assert.False(t, Decision{Verb: verb, Drain: true}.Placed(), verb)
	}
}

// These invariants hold in any situation, even one that no correct history leads to.
func TestNoDecisionTakesARootFromWhoMayBeAtWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		someone := rapid.SampledFrom([]OwnerEpoch{inA, inA2, inAx, inB, inC})
		lives := rapid.SampledFrom([]EpochState{EpochActive, EpochEnded, EpochUnknown, EpochUnproven})
		target := rapid.SampledFrom([]OwnerEpoch{inA, inB, inC}).Draw(t, "target")
		s := Situation{
			Target: Claim{
				OwnerEpoch: target, Current: rapid.Bool().Draw(t, "current"),
				Renewing: rapid.Bool().Draw(t, "renewing"),
			},
			Owner: lives.Draw(t, "owner"),
		}
		for _, c := range rapid.SliceOfNDistinct(someone, 0, 4, rapid.ID).Draw(t, "claims") {
			l := lives.Draw(t, "life")
			s.Claims = append(s.Claims, Claim{
				OwnerEpoch: c, EpochState: l, Current: l == EpochActive && rapid.Bool().Draw(t, "current"),
			})
		}
		s.Root = rootWith(rapid.SampledFrom([]string{"", "a", "b", "x"}).Draw(t, "label"),
			rapid.Bool().Draw(t, "drain"), nil)
		if st := rapid.SampledFrom([]state{"", StateOwned, StateFree}).Draw(t, "state"); st != "" {
			s.Recorded, s.Record = true, *recordWith(st, someone.Draw(t, "recorded"))
			for _, c := range s.Claims {
				s.Record.Left = append(s.Record.Left, c.OwnerEpoch)
			}
			if next := someone.Draw(t, "next"); rapid.Bool().Draw(t, "bequeathed") {
				s.Record.Next = &next
				if s.Drain {
					s.successor = &next
				}
			}
			s.Resident, s.family = rapid.Bool().Draw(t, "resident"), rapid.Bool().Draw(t, "family")
		}
		d := Decide(s)
		require.NotEmpty(t, d.Verb)
		atWork := func(c OwnerEpoch) bool { // may be, as far as is known
			if s.Recorded && s.Record.State == StateOwned && s.Record.Owner() == c {
				return s.Owner != EpochEnded
			}
			for _, k := range s.Claims {
				if k.OwnerEpoch == c {
					return k.EpochState != EpochEnded
				}
			}
			return false
		}
		if d.Record == nil {
			return
		}
		if heir := d.Record.Next; heir != nil {
			require.True(
				t, d.Drain && *heir == target && s.Target.Current && s.Resident && !s.family && len(s.Record.Left) == 0,
				"%+v",
				d.Record,
			)
		}
		if s.Recorded && d.Record.State == StateOwned && d.Record.Owner() == s.Record.Owner() &&
			len(d.Record.Left) == len(s.Record.Left) {
			return // its owner keeps it, or has a successor for it
		}
		require.True(
			t, !s.Recorded || s.Record.State == StateFree || s.Owner == EpochEnded,
			"the record of one who may be at work was replaced",
		)
		for _, c := range s.Claims {
			asked := d.Record.Owner() == c.OwnerEpoch
			for _, l := range d.Record.Left {
				asked = asked || l == c.OwnerEpoch
			}
			require.True(t, asked || !atWork(c.OwnerEpoch), "%v was forgotten by %+v", c.OwnerEpoch, d.Record)
		}
		if !d.Drain {
			require.Equal(t, target, d.Record.Owner())
			for _, c := range s.Claims {
				require.True(t, c.OwnerEpoch == target || !atWork(c.OwnerEpoch), "assigned while %v may be at work",
					c.OwnerEpoch)
			}
		}
	})
}

func TestWhereTheChildrenOfARootAre(t *testing.T) {
	inA, inB := OwnerEpoch{"a", "l", 1}, OwnerEpoch{"b", "l", 1}
	recorded := func(r Record) Situation {
		return Situation{Root: Root{Record: r, Recorded: true}, Target: Claim{OwnerEpoch: inB}}
	}
	blank := func(claims ...OwnerEpoch) Situation {
		s := Situation{Target: Claim{OwnerEpoch: inB}}
		for _, c := range claims {
			s.Claims = append(s.Claims, Claim{OwnerEpoch: c, EpochState: EpochEnded})
		}
		return s
	}
	assert.Equal(t, Origin{Shard: "a"}, recorded(Record{Shard: "a", State: StateFree}).Origin())
	assert.Equal(t, Origin{Shard: "b"}, recorded(Record{Shard: "b", State: StateOwned}).Origin(), "of an earlier life")
	assert.Equal(t, Origin{Any: true}, recorded(Record{Shard: "a", State: StateFree, Probed: true}).Origin())
	assert.Equal(t, Origin{}, blank(inB).Origin(), "new, or with the target")
	assert.Equal(t, Origin{Any: true}, blank(inA, inB).Origin(), "though dead, it may have created some")
	assert.Equal(t, Origin{Any: true}, blank(OwnerEpoch{"b", "l", 0}, inB).Origin())
}

func TestWhomAChildFollows(t *testing.T) {
	of := func(state state, life EpochState) Situation {
		return Situation{Root: Root{Record: Record{Shard: "a", State: state}, Recorded: true}, Owner: life}
	}
	shard, ok := of(StateOwned, EpochActive).ShardOfChildren()
	assert.Equal(t, "a", shard)
	assert.True(t, ok)
	for _, s := range []Situation{
		of(StateFree, EpochActive), of(StateOwned, EpochEnded), of(StateOwned, EpochUnknown),
		of(StateOwned, EpochUnproven),
		{},
	} {
		_, ok := s.ShardOfChildren()
		assert.False(t, ok, "the child must be found before the root is assigned")
	}
}
