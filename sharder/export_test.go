package sharder

import "github.com/bellwether-k8s/bellwether/internal/clock"

// WithClock returns the configuration of a process with a clock of its own.
func (c Config) WithClock(own clock.Clock) Config {
	c.clock = own
	return c
}
