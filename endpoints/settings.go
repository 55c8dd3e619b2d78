package endpoints

import (
	"errors"
	"fmt"
	"time"
)

// settingsKey is the key of the run-time setting.
const settingsKey = "expire-duration"

// minExpireDuration is the shortest setting, with which an instance has three heartbeats before it expires.
const minExpireDuration = heartbeats * minInterval

// errNoSetting is returned for settings without the key.
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
	case d < minExpireDuration:
		return 0, fmt.Errorf("%s: must be at least %v (got %q)", settingsKey, minExpireDuration, text)
	}
	return d, nil
}

// settings are the times by which an instance runs.
type settings struct {
	expireAfter time.Duration // as configured, or set at run time
	maxInterval time.Duration // as configured
	interval    time.Duration // of the present round; as configured before the first one
	started     bool          // there was a round
}

// maxGrowth bounds how much longer an interval may be than the one before. Others expect the next
// heartbeat within three of the previous intervals, whichever run-time setting they have read.
const maxGrowth = 1.5

// startRound sets the interval to a third of expireAfter, but at most to the configured one.
func (s *settings) startRound() {
	interval := min(s.maxInterval, s.expireAfter/heartbeats)
	if s.started {
		interval = min(interval, time.Duration(float64(s.interval)*maxGrowth))
	}
	s.interval, s.started = interval, true
}
