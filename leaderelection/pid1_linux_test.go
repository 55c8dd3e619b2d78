package leaderelection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func TestLossEndsAContainer(t *testing.T) {
	t.Parallel()
	c := loser(t, "stderr")
	subprocess.StartAsPID1(t, c)
	_ = c.Wait()
	assert.Equal(t, leaderelection.ExitCodeNotLeader, c.ProcessState.ExitCode())
}

func ExampleReexecIfPID1() {
	// func main() {
	leaderelection.ReexecIfPID1() // before anything else
	// ...
}
