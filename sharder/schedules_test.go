package sharder_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// schedulesVariable names the environment variable with how many schedules a simulation runs, instead of
// its own number.
const schedulesVariable = "BELLWETHER_TEST_SCHEDULES"

func schedules(t *testing.T, n int) sim.Budget {
	t.Helper()
	s := os.Getenv(schedulesVariable)
	if s == "" {
		return sim.Schedules(t, n)
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, schedulesVariable)
	return sim.First(n)
}
