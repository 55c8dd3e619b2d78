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
		c := newCluster(t)
		stuck := func(all []object) []object { return ownedBy(ownedBy(all, "b", "a", "b"), "c", "a", "b", "c") }
		c.createUntil(func(all []object) bool { return len(stuck(all)) > 0 })
		c.start("a", "-overdue-after=1s")
		b := c.start("b", "-without-sharder", "-work=1h", "-stubborn")
		c.requireSettled("a", "b")
		all := c.list()
		c.requireWorkedOn(all, "a", "b")
		before := time.Now()
		c.start("c", "-without-sharder")

		// b never acknowledges.
		share := stuck(all)
		c.eventually(func() bool {
			for _, o := range share {
				if v := versionOf(c.get(o)); !v.drained || v.shard != "b" {
					return false
				}
			}
			return true
		}, "not drained")
		c.requireSaid("a", 0, "overdue", share[0].GetName(), "b")
		require.NoError(t, b.Kill())
		c.requireSettled("a", "c")
		c.requireWorkedOn(all, "a", "c")

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
		c.requireEach(before, want)
		assert.Len(t, c.leaseWrites(before, "b"), 1)
		for _, o := range share {
			for _, v := range c.referee.versions(o.GetUID()) {
				assert.False(t, v.shard == "c" && v.drained, "%s: the new shard was asked to let go, too", o.GetName())
			}
		}
		c.requireExclusion()
	})
}

// TestWorkThatKeepsAnObjectTooLong moves objects although work on them would take an hour: its
// context ends, and it obeys.
func TestWorkThatKeepsAnObjectTooLong(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		c := newCluster(t)
		c.create(many)
		c.start("a", "-work=1h", "-ack-grace=500ms")
		c.requireSettled("a")
		all := c.list()
		c.requireWorkedOn(all, "a")
		before := time.Now()
		c.start("b", "-work=1h")
		c.requireSettled("a", "b")
		c.requireWorkedOn(all, "a", "b")
		c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1, shard: 1})
		c.requireExclusion()
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
				c := newCluster(t)
				// or there is no middle
				c.createUntil(func(all []object) bool {
					return len(moved(all, []string{"a", "b"}, []string{"a", "b", "c"})) > 4
				})
				proxy, err := shared.Proxy()
				require.NoError(t, err)
				defer proxy.Close()
				sharder := []string{"-without-shard", "-max-drains=1"}
				shard := []string{"-without-sharder", "-work=2s", "-stubborn"} // so that the middle lasts
				first := c.startAs(proxy.Config(c.user("s1")), "s1", sharder...)
				c.requireSaid("s1", 0, "sharder")
				c.start("s2", sharder...)
				c.start("a", shard...)
				c.start("b", shard...)
				c.requireSettled("a", "b")
				all := c.list()
				c.requireWorkedOn(all, "a", "b")
				before := time.Now()
				c.start("c", shard...)
				share := moved(all, []string{"a", "b"}, []string{"a", "b", "c"})
				c.eventually(func() bool { return c.arrived(share, "c") >= 2 }, "nothing moves")
				test.end(t, first, proxy)
				ended := time.Now()
				assert.Less(t, c.arrived(share, "c"), len(share), "this was not the middle")
				c.requireSaid("s2", 0, "sharder")
				if test.wake != nil {
					test.wake(t, first, proxy)
				}
				c.requireSettled("a", "b", "c")
				c.requireWorkedOn(all, "a", "b", "c")
				c.requireCosts(before, share, cost{sharder: 1, shard: 1})
				late := map[string]int{}
				for _, e := range c.audited(before) {
					if e.Write() && e.UserAgent == "sharder/s1" && e.Received.After(ended.Add(c.duration)) {
						late[e.Resource+" "+e.Name]++
						assert.LessOrEqual(t, late[e.Resource+" "+e.Name], test.begun, "a deposed sharder writes: %+v",
							e)
					}
				}
				t.Logf("late writes of the first sharder: %v", late)
				c.requireExclusion()
			})
		})
	}
}

// arrived returns how many of the objects have the label of a shard.
func (c *cluster) arrived(objects []object, shard string) int {
	c.t.Helper()
	n := 0
	for _, o := range objects {
		if versions := c.referee.versions(o.GetUID()); len(versions) > 0 && versions[len(versions)-1].shard == shard {
			n++
		}
	}
	return n
}
