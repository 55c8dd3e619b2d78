package policy

import "time"

// Budget limits how many pods are deleted per minute, over all fences. It is a value: [Budget.Take]
// returns the next one.
//
// It grants pods at an even pace, PodsPerMinute of [Limits]. What is not used is saved: one pod, and
// those of 5 s. So no minute has more than PodsPerMinute, a twelfth of it, and one pod.
//
// The zero value has saved nothing: the pace begins with the first request. So a new process need not
// know the deletions of the previous one, which kept to the same pace.
type Budget struct {
	paid time.Time // until when all that has passed is used
}

// savings is how long a budget saves what is not used, besides one pod. The releases of a node are
// that far apart when its devices are read in between.
const savings = 5 * time.Second

// Take requests the deletion of so many pods, and returns how many may be deleted now. Ask for the
// others later, with the returned budget.
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
