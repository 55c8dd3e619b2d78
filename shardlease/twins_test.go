package shardlease_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// TestOfTwoProcessesOfOneIdentityThatStartAtOnceOneHoldsTheLease is about replicas whose identities
// were configured to be the same. Their clocks agree, so they write the same.
func TestOfTwoProcessesOfOneIdentityThatStartAtOnceOneHoldsTheLease(t *testing.T) {
	inCluster(t, func(c *cluster) {
		a, b := newShard(c, nil), newShard(c, nil)
		a.begin(c)
		b.begin(c)
		synctest.Wait()
		assert.Equal(t, 1, len(a.epochs())+len(b.epochs()))
		a.cancel()
		b.cancel()
	})
}
