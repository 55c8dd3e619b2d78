package sharder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// TestShardThatDiesWhileItIsDrained has a shard that never lets go, because its work does not end,
// die with the drain labels on its objects.
func TestShardThatDiesWhileItIsDrained(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		stuck := func(all []object) []object { return ownedBy(ownedBy(all, "b", "a", "b"), "c", "a", "b", "c") }
		f.createUntil(func(all []object) bool { return len(stuck(all)) > 0 })
		f.start("a", "-overdue-after=1s")
		b := f.start("b", "-without-sharder", "-work=1h", "-stubborn")
		f.requireSettled("a", "b")
		all := f.list()
		f.requireWorkedOn(all, "a", "b")
		before := time.Now()
		f.start("c", "-without-sharder")

		// b never acknowledges.
		share := stuck(all)
		f.eventually(func() bool {
			for _, o := range share {
				if v := versionOf(f.get(o)); !v.drained || v.shard != "b" {
					return false
				}
			}
			return true
		}, "not drained")
		f.requireSaid("a", 0, "overdue", share[0].GetName(), "b")
		require.NoError(t, b.Kill())
		f.requireSettled("a", "c")
		f.requireWorkedOn(all, "a", "c")

		want := map[string]cost{}
		for _, o := range all {
			switch drained := o.owner("a", "b", "c") != o.owner("a", "b"); {
			case o.owner("a", "b") == "a" && drained:
				want[o.GetName()] = cost{sharder: 1, shard: 1}
			case o.owner("a", "b") == "b" && drained:
				want[o.GetName()] = cost{sharder: 2}
			case o.owner("a", "b") == "b":
				want[o.GetName()] = cost{sharder: 1}
			}
		}
		f.requireEach(before, want)
		assert.Len(t, f.leaseWrites(before, "b"), 1)
		for _, o := range share {
			for _, v := range f.referee.versions(o.GetUID()) {
				assert.False(t, v.shard == "c" && v.drained, "%s: the new shard was asked to let go, too", o.GetName())
			}
		}
		f.requireExclusion()
	})
}

// TestWorkThatKeepsAnObjectTooLong moves objects although work on them would take an hour: its
// context ends, and it obeys.
func TestWorkThatKeepsAnObjectTooLong(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("a", "-work=1h", "-ack-grace=500ms")
		f.requireSettled("a")
		all := f.list()
		f.requireWorkedOn(all, "a")
		before := time.Now()
		f.start("b", "-work=1h")
		f.requireSettled("a", "b")
		f.requireWorkedOn(all, "a", "b")
		f.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1, shard: 1})
		f.requireExclusion()
	})
}

// TestSharderThatChangesInTheMiddleOfARebalance has a second sharder finish what the first has
// begun, at no more than the cost of doing it once.
func TestSharderThatChangesInTheMiddleOfARebalance(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end func(*testing.T, *e2e.Process, *e2e.Proxy)
		// wake ends what kept the first sharder from working, when the second one works.
		wake func(*testing.T, *e2e.Process, *e2e.Proxy)
		// begun is how often it may write each object then: what it was stopped with between the
		// guard and the connection.
		begun int
	}{
		"ended":  {end: func(t *testing.T, p *e2e.Process, _ *e2e.Proxy) { require.NoError(t, p.Terminate()) }},
		"killed": {end: func(t *testing.T, p *e2e.Process, _ *e2e.Proxy) { require.NoError(t, p.Kill()) }},
		"stopped, and woken": {
			end:   func(t *testing.T, p *e2e.Process, _ *e2e.Proxy) { require.NoError(t, p.Pause()) },
			wake:  func(t *testing.T, p *e2e.Process, _ *e2e.Proxy) { require.NoError(t, p.Resume()) },
			begun: 1,
		},
		"cut off, and connected again": {
			end:  func(_ *testing.T, _ *e2e.Process, proxy *e2e.Proxy) { proxy.Cut() },
			wake: func(_ *testing.T, _ *e2e.Process, proxy *e2e.Proxy) { proxy.Heal() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e2e.Repeat(t, func(t *testing.T) {
				f := newFleet(t)
				// or there is no middle
				f.createUntil(func(all []object) bool {
					return len(moved(all, []string{"a", "b"}, []string{"a", "b", "c"})) > 4
				})
				proxy, err := shared.Proxy()
				require.NoError(t, err)
				defer proxy.Close()
				sharder := []string{"-without-shard", "-max-drains=1"}
				shard := []string{"-without-sharder", "-work=2s", "-stubborn"} // so that the middle lasts
				first := f.startAs(proxy.Config(f.user("s1")), "s1", sharder...)
				f.requireSaid("s1", 0, "sharder")
				f.start("s2", sharder...)
				f.start("a", shard...)
				f.start("b", shard...)
				f.requireSettled("a", "b")
				all := f.list()
				f.requireWorkedOn(all, "a", "b")
				before := time.Now()
				f.start("c", shard...)
				share := moved(all, []string{"a", "b"}, []string{"a", "b", "c"})
				f.eventually(func() bool { return f.arrived(share, "c") >= 2 }, "nothing moves")
				test.end(t, first, proxy)
				ended := time.Now()
				assert.Less(t, f.arrived(share, "c"), len(share), "this was not the middle")
				f.requireSaid("s2", 0, "sharder")
				if test.wake != nil {
					test.wake(t, first, proxy)
				}
				f.requireSettled("a", "b", "c")
				f.requireWorkedOn(all, "a", "b", "c")
				f.requireCosts(before, share, cost{sharder: 1, shard: 1})
				late := map[string]int{}
				for _, e := range f.audited(before) {
					if e.Write() && e.UserAgent == "sharder/s1" && e.Received.After(ended.Add(f.duration)) {
						late[e.Resource+" "+e.Name]++
						assert.LessOrEqual(t, late[e.Resource+" "+e.Name], test.begun, "a deposed sharder writes: %+v",
							e)
					}
				}
				t.Logf("late writes of the first sharder: %v", late)
				f.requireExclusion()
			})
		})
	}
}

// arrived returns how many of the objects have the label of a shard.
func (f *fleet) arrived(objects []object, shard string) int {
	f.t.Helper()
	n := 0
	for _, o := range objects {
		if versions := f.referee.versions(o.GetUID()); len(versions) > 0 && versions[len(versions)-1].shard == shard {
			n++
		}
	}
	return n
}
