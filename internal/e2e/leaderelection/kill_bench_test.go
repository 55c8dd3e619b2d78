package leaderelection_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// daemon is a program that is elected: ours with its supervisor, or that of client-go.
type daemon struct {
	process *e2e.Process
	began   chan time.Time // the first act of each term
}

// BenchmarkKill is the time from kill -9 of the leader's process until the first act of its
// successor, of real processes.
func BenchmarkKill(b *testing.B) {
	const elections = 10
	kubeconfig, err := shared.Kubeconfig(shared.Admin())
	require.NoError(b, err)
	programs := map[string]string{}
	for name, pkg := range map[string]string{clientGo.name: "./foreign", ours.name: "./replica"} {
		programs[name], err = shared.Program(b.Context(), pkg)
		require.NoError(b, err)
	}
	start := func(p peer, lease types.NamespacedName, identity string) *daemon {
		d := &daemon{began: make(chan time.Time, 100)}
		begins := false
		args := []string{
			"-kubeconfig", kubeconfig, "-namespace", lease.Namespace, "-identity", identity,
			"-lease-duration", fullDuration.String(),
		}
		if p.name == ours.name {
			args = append(args, "-supervised")
		}
		d.process, err = shared.Run(e2e.Command{
			Name: fmt.Sprint(lease.Namespace, "-", p.name, "-", identity), Path: programs[p.name], Args: args,
			Supervised: p.name == ours.name,
			OnLine: func(line string) {
				if line == "begin" {
					begins = true
				} else if at, err := strconv.ParseInt(line, 10, 64); err == nil && begins {
					begins = false
					d.began <- time.Unix(0, at)
				}
			},
		})
		require.NoError(b, err)
		return d
	}
	compare(b, []peer{clientGo, ours}, func(b *testing.B, p peer) []figure {
		rounds := 1
		if p.name == ours.name {
			rounds = 10
		}
		took := concurrently(b, elections, func(lease types.NamespacedName) func() []time.Duration {
			namespace, err := shared.Namespace(b.Context(), "kill")
			require.NoError(b, err)
			lease.Namespace = namespace // the programs have one name for the Lease
			leader := start(p, lease, "a")
			<-leader.began
			next := start(p, lease, "b")
			return func() (took []time.Duration) {
				for range rounds {
					<-time.After(aWhile())
					program, err := leader.process.Program()
					require.NoError(b, err)
					killed := time.Now()
					require.NoError(b, program.Kill())
					took = append(took, (<-next.began).Sub(killed))
					require.NoError(b, leader.process.Restart())
					leader, next = next, leader
				}
				require.NoError(b, leader.process.Kill())
				require.NoError(b, next.process.Kill())
				return took
			}
		})
		return []figure{
			{"p50", "ms", 1e3 * quantile(took, 0.5).Seconds()},
			{"p99", "ms", 1e3 * quantile(took, 0.99).Seconds()},
			{"max", "ms", 1e3 * quantile(took, 1).Seconds()},
		}
	})
}
