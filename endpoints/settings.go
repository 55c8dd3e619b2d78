package endpoints

import (
	"errors"
	"fmt"
	"time"
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

// pace is the time between two heartbeats.
type pace struct {
	configured time.Duration
	last       time.Duration // zero: there was none
}

// growth is by which factor an interval may be longer than the one before. Others expect the next heartbeat after no more than three of those, whatever
// they know of the run-time setting.
const growth = 1.5

// next returns the interval for an instance that takes others for expired after that time.
func (p *pace) next(expireAfter time.Duration) time.Duration {
	interval := min(p.configured, expireAfter/heartbeats)
	if p.last > 0 {
		interval = min(interval, time.Duration(float64(p.last)*growth))
	}
	p.last = interval
	return interval
}
