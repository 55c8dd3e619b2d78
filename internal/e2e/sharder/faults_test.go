package sharder_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

// TestStoppedShardWithAKernelDeadline proves that a shard which is stopped at work is dead before others begin, so that nothing is left
// to write.
func TestStoppedShardWithAKernelDeadline(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's deadline is for Linux only")
	}
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleetOf(t, brief)
		f.create(many)
		f.start("a", "-write")
		b := f.start("b", "-without-sharder", "-kernel-deadline", "-write", "-work=10ms", "-stubborn", "-pace=50ms")
		f.requireSettled("a", "b")
		all := f.list()
		f.requireWorkedOn(all, "a", "b")
		before := f.mark()
		require.NoError(t, b.Pause())
		exit := f.requireEnd(b)
		assert.Equal(t, syscall.SIGKILL, exit.Signal, "%s", exit)
		assert.ErrorIs(t, b.Resume(), os.ErrProcessDone)
		f.requireSettled("a")
		f.requireWorkedOn(all, "a")
		f.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
		f.requireExclusion()
	})
}

// TestStoppedShardExitsWhenItWakes is about a shard without that deadline: what it was stopped at goes on for a moment when it is woken, but
// nothing else begins.
func TestStoppedShardExitsWhenItWakes(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleetOf(t, brief)
		f.create(many)
		f.start("a")
		b := f.start("b", "-without-sharder", "-work=10ms", "-stubborn", "-pace=50ms")
		f.requireSettled("a", "b")
		all := f.list()
		f.requireWorkedOn(all, "a", "b")
		require.NoError(t, b.Pause())
		f.requireSettled("a")
		f.requireWorkedOn(all, "a")
		woken := time.Now()
		require.NoError(t, b.Resume())
		f.requireExit(b, shardlease.ExitCodeNotHeld)
		late := map[types.UID]int{}
		for _, p := range f.referee.pieces("b") {
			if p.begin.After(woken) {
				late[p.object]++
			}
		}
		for o, n := range late { // between the question whether the lease is held and the work
			assert.Equal(t, 1, n, "%s: work goes on", o)
		}
		t.Logf("%d pieces of work were stopped right before they began", len(late))
	})
}

func TestShardThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]func(*e2e.Proxy){"cut": (*e2e.Proxy).Cut, "black hole": (*e2e.Proxy).BlackHole} {
		for role, args := range map[string][]string{"shard": {"-without-sharder"}, "sharder": nil} {
			t.Run(name+", a "+role, func(t *testing.T) {
				t.Parallel()
				e2e.Repeat(t, func(t *testing.T) {
					f := newFleetOf(t, brief)
					f.create(many)
					proxy, err := shared.Proxy()
					require.NoError(t, err)
					defer proxy.Close()
					b := f.startAs(proxy.Config(f.user("b")), "b", append(args, "-write")...)
					if role == "sharder" {
						f.requireSaid("b", 0, "sharder")
					}
					f.start("a", "-write")
					f.requireSettled("a", "b")
					all := f.list()
					f.requireWorkedOn(all, "a", "b")
					before := f.mark()
					inject(proxy)
					f.requireExit(b, shardlease.ExitCodeNotHeld)
					f.requireSettled("a")
					f.requireWorkedOn(all, "a")
					f.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
					assert.Len(t, f.leaseWrites(before, "b"), 1)
					f.requireExclusion()
				})
			})
		}
	}
}

func TestTwoReplicasOfOneIdentity(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFleet(t)
		f.create(many)
		f.start("sharder", "-without-shard")
		first := f.start("a", "-without-sharder", "-write")
		f.requireSettled("a")
		f.requireWorkedOn(f.list(), "a")
		before := f.mark()
		second := f.start("a-again", "-without-sharder", "-write", "-identity=a")
		f.requireLog(second, "another process of the same identity holds the lease: only one of them works")
		assert.Empty(t, f.referee.pieces("a-again"))
		require.NoError(t, first.Terminate())
		f.requireExit(first, 0)
		f.requireHeld("a-again")
		f.eventually(func() bool { return len(f.referee.pieces("a-again")) > 0 }, "the second one does not work")
		f.requireSettled("a")
		f.requireCosts(before, f.list(), cost{sharder: 1})
		f.requireExclusion()
	})
}
