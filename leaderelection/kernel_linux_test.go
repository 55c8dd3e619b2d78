package leaderelection_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKernelDeadlineSparesAProcessWhoseWorkHasEndedAfterTheLoss(t *testing.T) {
	t.Parallel()
	output, err := loser(t, "released").CombinedOutput()
	assert.NoError(t, err, string(output))
}
