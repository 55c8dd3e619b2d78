package endpoints_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

func TestLastInstanceEmptiesTheServiceWhenItWithdraws(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil).start(c)
		c.requirePublished("10.0.0.1")
		require.NoError(c, i.stop())
		assert.Empty(c, c.keys())
		assert.Empty(c, c.slices())
		assert.True(c, i.lastRound().Withdrawing)
	})
}

func TestInstanceIsPublishedOnlyWhileReady(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil).start(c), newInstance(c, "10.0.0.2", nil)
		b.setReady(errUnwell)
		b.start(c)
		time.Sleep(expiry)
		c.requirePublished("10.0.0.1")
		assert.True(c, b.lastRound().Withdrawing)
		b.setReady(nil)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.False(c, b.lastRound().Withdrawing)
		b.setReady(errUnwell)
		time.Sleep(2 * interval)
		c.requirePublished("10.0.0.1")
		assert.Len(c, c.keys(), 1)
		assert.Equal(c, 2, b.logs.FilterMessage("withdrawing this instance").Len(), "once each time")

		a.setReady(errUnwell)
		time.Sleep(2 * interval)
		c.requirePublished()
	})
}

func TestInstanceRemovesItsStaleEntryAtStart(t *testing.T) {
	inBoth(t, func(c *cluster) {
		_ = newInstance(c, "10.0.0.1", nil).start(c).die()
		newInstance(c, "10.0.0.2", nil).start(c)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		again := newInstance(c, "10.0.0.1", nil)
		again.setReady(errUnwell)
		again.start(c)
		c.requirePublished("10.0.0.2")
		assert.Len(c, c.keys(), 1)
	})
}

func TestWithdrawalAfterTheOwnEntryHasExpired(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		for _, key := range c.keys() { // somebody removes it, and ends before it has published that
			if strings.Contains(key, "10-0-0-1") {
				c.removeKey(key)
			}
		}
		c.requirePublished("10.0.0.1", "10.0.0.2")
		require.NoError(c, a.Withdraw(c.Context()))
		c.requirePublished("10.0.0.2")
	})
}

func (c *cluster) removeKey(key string) {
	c.Helper()
	if c.store == stores["Leases"] {
		require.NoError(c, c.client.CoordinationV1().Leases("ns").Delete(c.Context(), key, metav1.DeleteOptions{}))
		return
	}
	c.patchData("web-endpoints", fmt.Sprintf("{%q:null}", key))
}

func TestWithdrawalLeavesTheOthersWhenTheStoreIsLost(t *testing.T) {
	inBoth(t, func(c *cluster) {
		a, b := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.2", nil)
		a.once(c)
		b.once(c)
		c.loseStore()
		require.NoError(c, a.Withdraw(c.Context()))
		c.requirePublished("10.0.0.2")
	})
}

func TestWithdrawalIsBounded(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", func(config *endpoints.Config) {
			config.WithdrawTimeout = 7 * time.Second
		}).start(c)
		i.client.Inject(apisim.Faults{LoseResponse: apisim.Always, LoseRequest: apisim.Always})
		begin := time.Now()
		err := i.stop()
		require.ErrorContains(c, err, "endpoints: not withdrawn from Service ns/web")
		assert.Equal(c, 7*time.Second, time.Since(begin))
	})
}

// TestWithdrawalIsTriedAgainAfterAnAnswerThatDoesNotCome loses one answer, on a connection that
// works again at once.
func TestWithdrawalIsTriedAgainAfterAnAnswerThatDoesNotCome(t *testing.T) {
	for name, lost := range map[string]apisim.Faults{
		"reads": {LoseRequest: reads("")},
		"all":   {LoseResponse: apisim.Always},
	} {
		t.Run(name, func(t *testing.T) {
			inBoth(t, func(c *cluster) {
				i := newInstance(c, "10.0.0.1", nil)
				i.once(c)
				i.client.Inject(lost)
				time.AfterFunc(3*time.Second, func() { i.client.Inject(apisim.Faults{}) })
				result := make(chan error, 1)
				ctx, cancel := context.WithCancel(c.Context())
				defer cancel()
				go func() { result <- i.Withdraw(ctx) }()
				require.NoError(c, requireWithin(c, 2*interval, result))
				c.requirePublished()
				assert.Empty(c, c.keys())
			})
		})
	}
}

// TestLateHeartbeatDoesNotUndoTheWithdrawal is about a heartbeat whose sender has given up, and
// which arrives after the entry was removed.
func TestLateHeartbeatDoesNotUndoTheWithdrawal(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.once(c)
		i.client.Inject(apisim.Faults{Latency: 3 * time.Second})
		// after 10 s; the heartbeat is sent at 8.5 s, when what is published was given up at 2.5 s
		require.Error(c, i.ReconcileOnce(c.Context()))
		i.client.Inject(apisim.Faults{})
		require.NoError(c, i.Withdraw(c.Context()))
		before := len(c.server.Trace())
		time.Sleep(time.Minute)
		late := c.server.Trace()[before:]
		require.Len(c, late, 1, "it has arrived")
		assert.NotEqual(c, http.MethodGet, late[0].Method)
		assert.GreaterOrEqual(c, late[0].Code, 400)
		assert.Empty(c, c.keys())
		c.requirePublished()
	})
}

func TestSecondProcessOfOneAddressAndPort(t *testing.T) {
	inBoth(t, func(c *cluster) {
		before, after := newInstance(c, "10.0.0.1", nil), newInstance(c, "10.0.0.1", nil)
		before.once(c)
		after.once(c)
		before.once(c)
		require.NoError(c, before.Withdraw(c.Context()))
		c.requirePublished("10.0.0.1")
		require.NoError(c, after.Withdraw(c.Context()))
		c.requirePublished()
	})
}

// TestProcessThatIsNotReadyLeavesAnotherOneAlone is about a standby with the address and port of
// the instance that serves.
func TestProcessThatIsNotReadyLeavesAnotherOneAlone(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.1", nil).start(c)
		standby := newInstance(c, "10.0.0.1", nil)
		standby.setReady(errUnwell)
		standby.start(c)
		time.Sleep(2 * interval) // what it found there was not its own, but that it could not know
		for range 60 {
			time.Sleep(time.Second)
			c.requirePublished("10.0.0.1")
		}
		require.NoError(c, standby.stop())
		c.requirePublished("10.0.0.1")
	})
}

// TestUnansweredFirstHeartbeatIsWithdrawn is about an entry that its writer does not know to exist.
func TestUnansweredFirstHeartbeatIsWithdrawn(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil)
		i.setReady(errUnwell)
		require.ErrorIs(c, i.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
		i.setReady(nil)
		i.client.Inject(apisim.Faults{LoseResponse: func(r *http.Request) bool { return r.Method != http.MethodGet }})
		require.Error(c, i.ReconcileOnce(c.Context()))
		assert.Len(c, c.keys(), 1)
		i.client.Inject(apisim.Faults{})
		i.setReady(errUnwell)
		require.ErrorIs(c, i.ReconcileOnce(c.Context()), endpoints.ErrNotReady)
		assert.Empty(c, c.keys())
	})
}

// TestWithdrawalOfTheLastInstanceLeavesNoOther is about an instance that removes an entry and ends
// before it has published the removal.
func TestWithdrawalOfTheLastInstanceLeavesNoOther(t *testing.T) {
	inBoth(t, func(c *cluster) {
		newInstance(c, "10.0.0.2", nil).once(c)
		a := newInstance(c, "10.0.0.1", nil)
		a.once(c)
		time.Sleep(expiry)
		for _, key := range c.keys() {
			if strings.Contains(key, "10-0-0-2") {
				c.removeKey(key)
			}
		}
		require.NoError(c, a.Withdraw(c.Context()))
		c.requirePublished()
	})
}

// One answer that does not come leaves time for another attempt, also with the default settings of Run.
func TestAProcessThatEndsTriesItsWithdrawalAgain(t *testing.T) {
	inBoth(t, func(c *cluster) {
		i := newInstance(c, "10.0.0.1", nil).start(c)
		time.Sleep(interval / 2)
		c.requirePublished("10.0.0.1")
		i.client.Inject(apisim.Faults{LoseRequest: apisim.Always})
		time.AfterFunc(3*time.Second, func() { i.client.Inject(apisim.Faults{}) })
		require.NoError(c, i.stop())
		c.requirePublished()
	})
}
