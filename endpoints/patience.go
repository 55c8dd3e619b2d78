package endpoints

import (
	"errors"
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// settingsKey is the key of the run-time setting.
const settingsKey = "expire-duration"

// errNoSetting is that of settings without the key.
var errNoSetting = errors.New("it has no key " + settingsKey)

// parseSetting reads the run-time setting.
func parseSetting(data map[string]string) (time.Duration, error) {
	text, exists := data[settingsKey]
	if !exists {
		return 0, errNoSetting
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: must be a duration such as 1m (got %q)", settingsKey, text)
	case d < MinExpireDuration:
		return 0, fmt.Errorf("%s: must be at least %v (got %q)", settingsKey, MinExpireDuration, text)
	}
	return d, nil
}

// patience is how long an instance waits for others. Instances learn of a change one after the other, so for a time each waits
// for the longer of two values, and sends heartbeats for the shorter one.
type patience struct {
	value, before time.Duration
	since         clock.Reading
	settle        time.Duration // how long until every instance must have learned of it
}

func newPatience(c Config, now clock.Reading) patience {
	return patience{value: c.ExpireAfter, before: c.ExpireAfter, since: now, settle: heartbeats * c.Interval}
}

// set takes in the value that was read now.
func (p *patience) set(d time.Duration, now clock.Reading) {
	if d != p.value {
		p.before, p.value, p.since = p.expireAfter(now), d, now
	}
}

// expireAfter is how long others are waited for.
func (p *patience) expireAfter(now clock.Reading) time.Duration {
	if now.SinceAtLeast(p.since) < p.settle {
		return max(p.value, p.before)
	}
	return p.value
}

// interval is the time between two heartbeats.
func (p *patience) interval(configured time.Duration, now clock.Reading) time.Duration {
	shortest := p.value
	if now.SinceAtLeast(p.since) < p.settle {
		shortest = min(p.value, p.before)
	}
	return min(configured, shortest/heartbeats)
}
