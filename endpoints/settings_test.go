package endpoints_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/endpoints"
)

func TestExpireDurationIsSetAtRunTime(t *testing.T) {
	inBoth(t, func(c *cluster) {
		var told []time.Duration
		with := func(config *endpoints.Config) {
			config.Settings = "settings"
			config.Hooks.OnExpireAfter = func(d time.Duration) { told = append(told, d) }
		}
		a := newInstance(c, "10.0.0.1", with).start(c)
		b := newInstance(c, "10.0.0.2", with).start(c)
		time.Sleep(expiry)
		assert.Empty(c, told, "there is none: the configured one is in force")
		assert.Equal(c, 1, a.logs.FilterMessage("cannot use the settings, keeping the last expire-duration").Len(),
			"said once")

		c.createConfigMap("settings", map[string]string{"expire-duration": "5s"})
		time.Sleep(expiry)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Equal(c, []time.Duration{5 * time.Second, 5 * time.Second}, told)
		written := c.written()
		time.Sleep(time.Minute)
		writes := written()
		assert.InDelta(c, 72, writes["configmaps"]+writes["leases"], 8, "three heartbeats in 5 s")

		for _, bad := range []string{
			`{"expire-duration":"garbage"}`, `{"expire-duration":"1s"}`,
			`{"expire-duration":"-1m"}`, `{"expire-duration":""}`, `{"expire-duration":null}`,
		} {
			c.patchData("settings", bad)
			time.Sleep(expiry / 4)
			c.requirePublished("10.0.0.1", "10.0.0.2")
		}
		require.NoError(c, c.client.CoreV1().ConfigMaps("ns").Delete(c.Context(), "settings", metav1.DeleteOptions{}))
		time.Sleep(expiry)
		c.requirePublished("10.0.0.1", "10.0.0.2")
		assert.Len(c, told, 2)
		_ = b.die()
		time.Sleep(5*time.Second + 2*2*time.Second)
		c.requirePublished("10.0.0.1")

		c.createConfigMap("settings", map[string]string{"expire-duration": "10m"})
		third := newInstance(c, "10.0.0.3", with).start(c)
		time.Sleep(expiry)
		_ = third.die()
		time.Sleep(9 * time.Minute)
		c.requirePublished("10.0.0.1", "10.0.0.3")
		time.Sleep(2 * time.Minute)
		c.requirePublished("10.0.0.1")
	})
}

// One instance cannot read the setting that the other one has read.
func TestInstanceThatMissedASettingIsNotDead(t *testing.T) {
	inBoth(t, func(c *cluster) {
		c.createConfigMap("settings", map[string]string{"expire-duration": "5s"})
		a := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.Settings = "settings" }).start(c)
		newInstance(c, "10.0.0.2", nil).start(c)
		for range 30 {
			time.Sleep(interval)
			c.requirePublished("10.0.0.1", "10.0.0.2")
		}
		assert.Empty(c, a.told().expired)
	})
}

// One instance learns of a longer expiry, the other one does not.
func TestSlowingInstanceIsNotDead(t *testing.T) {
	inBoth(t, func(c *cluster) {
		with := func(name string) func(*endpoints.Config) {
			return func(config *endpoints.Config) { config.Settings = name }
		}
		c.createConfigMap("one", map[string]string{"expire-duration": "5s"})
		c.createConfigMap("other", map[string]string{"expire-duration": "5s"})
		a := newInstance(c, "10.0.0.1", with("one")).start(c)
		newInstance(c, "10.0.0.2", with("other")).start(c)
		time.Sleep(2 * expiry)
		c.patchData("other", `{"expire-duration":"10m"}`)
		time.Sleep(5 * expiry)
		assert.Empty(c, a.told().expired)
	})
}

// The successor has the same address and port, and does not know the setting.
func TestSuccessorOfAFastInstanceIsNotDead(t *testing.T) {
	inBoth(t, func(c *cluster) {
		c.createConfigMap("settings", map[string]string{"expire-duration": "5s"})
		with := func(config *endpoints.Config) { config.Settings = "settings" }
		a := newInstance(c, "10.0.0.1", with).start(c)
		before := newInstance(c, "10.0.0.2", with).start(c)
		time.Sleep(expiry)
		before.client.Sever()
		newInstance(c, "10.0.0.2", nil).start(c)
		time.Sleep(expiry)
		assert.Empty(c, a.told().expired)
	})
}

// The instance does not know the setting, and has retried some rounds.
func TestInstanceThatWasFastOnceIsNotDead(t *testing.T) {
	inBoth(t, func(c *cluster) {
		c.createConfigMap("settings", map[string]string{"expire-duration": "5s"})
		a := newInstance(c, "10.0.0.1", func(config *endpoints.Config) { config.Settings = "settings" }).start(c)
		b := newInstance(c, "10.0.0.2", nil)
		for _, wait := range []time.Duration{
			interval, interval, interval, interval, 1500 * time.Millisecond,
			1500 * time.Millisecond, interval,
		} {
			b.once(c)
			time.Sleep(wait)
		}
		assert.Empty(c, a.told().expired)
	})
}
