package e2e

import "time"

// clockError is how far time synchronization may move a clock: less than a Margin.
const clockError = 100 * time.Millisecond

// ClockSet returns by how much the machine's clock was set since a reading of [time.Now]: zero if it was only
// adjusted. A leader or a shard whose clock is set ahead by more than its term lasts has lost it, as after a pause of
// the machine, and the acts of a history are in no order.
func ClockSet(since time.Time) time.Duration {
	now := time.Now()
	by := now.Round(0).Sub(since.Round(0)) - now.Sub(since) // by the wall clock, less by the monotonic one
	if by.Abs() <= clockError {
		return 0
	}
	return by
}
