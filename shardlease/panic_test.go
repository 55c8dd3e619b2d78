package shardlease_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/bellwether-k8s/bellwether/shardlease"
)

// panicEnv makes the test binary a shard that panics in one place.
const panicEnv = "BELLWETHER_TEST_PANIC"

func panicIn(part string) {
	shard, err := shardlease.New(fake.NewClientset(), shardlease.Config{Namespace: "ns", Ring: "r", Identity: "a"})
	if err != nil {
		panic(err)
	}
	fail := func(here string) error {
		if here == part {
			panic("on purpose")
		}
		return nil
	}
	shard.AddReleaseGate(func(context.Context) error { return fail("gate") })
	_ = shard.Run(context.Background(), func(context.Context) error { return fail("work") })
	os.Exit(0)
}

// The default OnLost ends the process, which must not be before the runtime has said why.
func TestPanicIsSaid(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	for _, part := range []string{"work", "gate"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), program)
			c.Env = append(os.Environ(), panicEnv+"="+part)
			said, err := c.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAsf(t, err, &exit, "%s", said)
			assert.Equal(t, 2, exit.ExitCode())
			assert.Contains(t, string(said), "panic: on purpose")
			assert.Contains(t, string(said), "shardlease_test.panicIn.func", "where it was")
		})
	}
}
