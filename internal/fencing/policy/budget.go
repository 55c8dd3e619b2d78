package policy

import "time"

// Budget limits how many pods are deleted per minute, over all fences. It is a value: [Budget.Take]
// returns the next one.
//
// The pods of one StatefulSet on a node are deleted together, however many they are, and paid
// afterwards. In any minute, at most PodsPerMinute of [Limits] are deleted, plus the pods of one
// StatefulSet. Ask for each other pod separately.
//
// The zero value does not know the recent deletions. It grants nothing for a minute after the first
// request.
type Budget struct {
	free time.Time // when all is paid
}

// MaxTake is the maximum number of pods in one request.
const MaxTake = 1_000_000

// Take requests the deletion of pods now. If the second result is 0, they may be deleted. Otherwise
// repeat the request after that time, with the returned budget. A number above [MaxTake] counts as
// MaxTake, and a negative one as 0.
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
