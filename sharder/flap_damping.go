package sharder

import "time"

// flapDamping are the shards that come and go, such as those whose process crashes over and over. Each return moves objects to them, and
// each departure away again, so they are let in later and later.
type flapDamping struct {
	left map[string][]time.Duration // when a shard has left, within flapWindow, by the sharder's monotonic clock
}

const (
	flapWindow   = 10 * time.Minute
	flapsAllowed = 3 // departures within the window that have no consequence
	maxFlapDelay = 5 * time.Minute
	minFlapDelay = 15 * time.Second
)

// depart notes that a shard has left.
func (f *flapDamping) depart(shard string, now time.Duration) {
	if f.left == nil {
		f.left = map[string][]time.Duration{}
	}
	for name, times := range f.left { // forget who has behaved
		if now-times[len(times)-1] >= flapWindow {
			delete(f.left, name)
		}
	}
	f.left[shard] = append(f.recent(shard, now), now)
}

func (f *flapDamping) recent(shard string, now time.Duration) []time.Duration {
	times := f.left[shard]
	for len(times) > 0 && now-times[0] >= flapWindow {
		times = times[1:]
	}
	return times
}

// wait is for how long a shard has to stay before it is let in; zero: it is welcome.
func (f *flapDamping) wait(shard string, now time.Duration) time.Duration {
	times := f.recent(shard, now)
	if len(times) <= flapsAllowed {
		return 0
	}
	delay := min(minFlapDelay<<min(len(times)-flapsAllowed-1, 10), maxFlapDelay)
	return max(0, delay-(now-times[len(times)-1]))
}
