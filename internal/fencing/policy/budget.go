package policy

import "time"

// Budget limits how many pods are deleted per minute, over all fences. It is a value: [Budget.Take]
// returns the next one.
//
// The pods of one StatefulSet on a node go together, however many they are, and are paid for
// afterwards: so in any minute PodsPerMinute of [Limits] are deleted, and at most those of one
// StatefulSet besides. Ask for each of the other pods alone.
//
// The zero value does not know what was deleted just before. It gives nothing for the first minute
// after it was first asked.
type Budget struct {
	free time.Time // when all is paid
}

// MaxTake is how many pods can be asked for at once.
const MaxTake = 1_000_000

// Take asks for pods that are to be deleted now. They may be if the second result is 0; otherwise
// ask again after it, with the budget that was returned. To ask for more than [MaxTake], or for
// less than none, is to ask for that.
func (b Budget) Take(now time.Time, pods int, limits Limits) (Budget, time.Duration) {
	if limits.PodsPerMinute == 0 {
		return b, 0
	}
	if b.free.IsZero() {
		b.free = now.Add(time.Minute)
	}
	if wait := b.free.Sub(now); wait > 0 {
		return b, wait
	}
	rate := time.Duration(max(limits.PodsPerMinute, 1))
	cost := time.Duration(min(max(pods, 0), MaxTake)) * time.Minute
	b.free = now.Add((cost + rate - 1) / rate)
	return b, 0
}
