package sharder_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/shardlease"
)

func TestShardThatIsCutOff(t *testing.T) {
	t.Parallel()
	for name, inject := range map[string]func(*e2e.Proxy){
		"cut":        (*e2e.Proxy).Cut,
		"black hole": (*e2e.Proxy).BlackHole,
	} {
		for role, args := range map[string][]string{"shard": {"-without-sharder"}, "sharder": nil} {
			t.Run(name+", a "+role, func(t *testing.T) {
				t.Parallel()
				e2e.Repeat(t, func(t *testing.T) {
					c := newCluster(t)
					c.create(many)
					proxy, err := shared.Proxy()
					require.NoError(t, err)
					defer proxy.Close()
					b := c.startAs(proxy.Config(c.user("b")), "b", append(args, "-write")...)
					if role == "sharder" {
						c.requireSaid("b", 0, "sharder")
					}
					c.start("a", "-write")
					c.requireSettled("a", "b")
					all := c.list()
					c.requireWorkedOn(all, "a", "b")
					before := time.Now()
					inject(proxy)
					c.requireExit(b, shardlease.ExitCodeNotHeld)
					c.requireSettled("a")
					c.requireWorkedOn(all, "a")
					c.requireCosts(before, ownedBy(all, "b", "a", "b"), cost{sharder: 1})
					assert.Len(t, c.leaseWrites(before, "b"), 1)
					c.requireExclusion()
				})
			})
		}
	}
}
