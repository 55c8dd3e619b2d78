package leasehold

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// The last line of a process whose work has failed does not send its reader to look for a lost lease.
func TestExitSaysWhetherTheWorkHasFailed(t *testing.T) {
	own := &lease.LostError{Err: fmt.Errorf("%w: it returned an error: %w", lease.ErrUnfinished, errors.New("no"))}
	assert.Equal(t, "the work has failed", exitReason("the shard lease is lost", own))
	assert.Equal(t, "the shard lease is lost",
		exitReason("the shard lease is lost", &lease.LostError{Err: lease.ErrTaken}))
	assert.Equal(t, "the shard lease is lost",
		exitReason("the shard lease is lost", &lease.LostError{Err: lease.ErrReleaseTimeout}))
}
