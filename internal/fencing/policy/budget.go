package policy

import "time"

// Budget limits how many pods are deleted per minute, over all fences. It is a value: [Budget.Take]
// returns the next one.
//
// It grants pods at an even pace, PodsPerMinute of [Limits], and saves unused ones up to those of 5
// s and one pod. No minute therefore has more than PodsPerMinute, a twelfth of it, and one pod.
//
// The zero value has saved nothing, and its pace begins with the first request. A new process
// therefore needs no record of the deletions of the previous one, which kept to the same pace.
type Budget struct {
	paid time.Time // until when everything is used
}

// savings is how long a budget saves unused pods, besides one pod. The releases of a node are that
// far apart when its devices are read in between.
const savings = 5 * time.Second

// Take requests the deletion of a number of pods, and returns how many may be deleted now. Ask for
// the others later, with the returned budget.
func (b Budget) Take(now time.Time, pods int, limits Limits) (Budget, int) {
	if limits.PodsPerMinute == 0 {
		return b, pods
	}
	rate := time.Duration(max(limits.PodsPerMinute, 1))
	cost := (time.Minute-1)/rate + 1
	if b.paid.IsZero() {
		b.paid = now
	}
	saved := min(now.Sub(b.paid), savings+cost)
	granted := max(0, min(pods, int(saved/cost)))
	b.paid = now.Add(time.Duration(granted)*cost - saved)
	return b, granted
}
