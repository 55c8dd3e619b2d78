package membership

import (
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// flapDamping delays the return of shards that come and go, such as those whose process crashes
// again and again, because each return and each departure moves objects.
type flapDamping struct {
	left     map[string][]time.Duration // times of departures within flapWindow, on the sharder's monotonic clock
	admitted map[string]bool            // members, which do not wait until they have departed
}

const (
	flapWindow   = 10 * time.Minute
	flapsAllowed = 3 // departures within the window without a delay
	maxFlapDelay = 5 * time.Minute
	minFlapDelay = 15 * time.Second
)

// depart records a departure.
func (f *flapDamping) depart(shard string, now time.Duration) {
	if f.left == nil {
		f.left = map[string][]time.Duration{}
	}
	for name, times := range f.left { // forget shards that have stayed
		if now-times[len(times)-1] >= flapWindow {
			delete(f.left, name)
		}
	}
	f.left[shard] = append(f.recent(shard, now), now)
	delete(f.admitted, shard)
}

// admit records that shards are members, even before their time. Keeping them out again as soon as
// another shard is there would move their objects twice.
func (f *flapDamping) admit(members protocol.Membership) {
	if f.admitted == nil {
		f.admitted = map[string]bool{}
	}
	for _, t := range members {
		f.admitted[t.Shard] = true
	}
}

func (f *flapDamping) recent(shard string, now time.Duration) []time.Duration {
	times := f.left[shard]
	for len(times) > 0 && now-times[0] >= flapWindow {
		times = times[1:]
	}
	return times
}

// wait returns how long a shard must still stay before it becomes a member.
func (f *flapDamping) wait(shard string, now time.Duration) time.Duration {
	times := f.recent(shard, now)
	if f.admitted[shard] || len(times) <= flapsAllowed {
		return 0
	}
	delay := min(minFlapDelay<<min(len(times)-flapsAllowed-1, 10), maxFlapDelay)
	return max(0, delay-(now-times[len(times)-1]))
}
