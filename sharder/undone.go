package sharder

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	// maxUndone is how often an object may lose and get its marks within undoneWithin. Later
	// attempts wait for pauses that double.
	maxUndone      = 3
	undoneWithin   = time.Minute
	minUndonePause = time.Second
	maxUndonePause = 5 * time.Minute
	// maxRepaired bounds how many objects are followed, so that they take at most three megabytes.
	maxRepaired = 10_000
)

// repairs are the objects that were lately found without the ring's marks, and have got them. A
// reconciler that removes them at each run, and is triggered by each write, would otherwise make
// the sharder write as fast as the API server answers.
type repairs struct {
	objects *objects

	mu    sync.Mutex
	known map[protocol.Ref]*repair // guarded by mu
	swept time.Time                // guarded by mu
	notes notes
}

func newRepairs(o *objects) *repairs { return &repairs{objects: o, known: map[protocol.Ref]*repair{}} }

// repair is what is known of one such object.
type repair struct {
	uid   types.UID
	times int           // how often it has got its marks
	first time.Time     // when that was for the first time
	last  time.Time     // and for the last time
	pause time.Duration // until it may get them again
	said  bool          // this pause was reported
}

// over reports whether the marks have lasted for so long that earlier repairs do not count. While
// the object waits for them, how long they had lasted is known already.
func (r *repair) over(now time.Time) bool {
	switch {
	case r.pause == 0:
		return now.Sub(r.first) > undoneWithin
	case r.said:
		return now.Sub(r.last) > r.pause+undoneWithin // the object is gone
	}
	return now.Sub(r.last) > undoneWithin/maxUndone
}

// repaired records that an object has got its marks.
func (u *repairs) repaired(object protocol.Ref, uid types.UID, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.known[object]
	if r == nil || r.uid != uid || r.over(now) {
		if r == nil && !u.room(now) {
			return
		}
		r = &repair{uid: uid, first: now}
		u.known[object] = r
	}
	r.times++
	r.last, r.said = now, false
	switch {
	case r.pause > 0:
		r.pause = min(2*r.pause, maxUndonePause)
	case r.times >= maxUndone:
		r.pause = minUndonePause
	}
}

// room makes room for one more object, if it can. The caller holds mu.
func (u *repairs) room(now time.Time) bool {
	if len(u.known) < maxRepaired {
		return true
	}
	if now.Sub(u.swept) < time.Second { // or all others would be checked for each new object
		return false
	}
	u.swept = now
	for object, r := range u.known {
		if r.over(now) {
			delete(u.known, object)
		}
	}
	return len(u.known) < maxRepaired
}

// wait returns how long an object that has lost its marks must wait for them, and what is known of
// it. first means that this is the first call since it got them last.
func (u *repairs) wait(
	object protocol.Ref, uid types.UID, now time.Time,
) (wait time.Duration, known repair, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.known[object]
	if r == nil || r.uid != uid || r.pause == 0 || r.over(now) {
		return 0, repair{}, false
	}
	wait = r.last.Add(r.pause).Sub(now)
	if wait <= 0 {
		return 0, repair{}, false
	}
	first = !r.said
	r.said = true
	return wait, *r, first
}

// isRepair reports whether a decision gives a root marks that it lacks, as the first assignment
// does.
func isRepair(o protocol.Root, d protocol.Decision) bool {
	return d.Verb == protocol.Restore || !o.Recorded && (d.Verb == protocol.Assign || d.Verb == protocol.Probe)
}

// await returns a [heldError] if an object must wait for its marks, and reports that.
func (u *repairs) await(r protocol.Ref, uid types.UID) error {
	now := time.Now()
	wait, known, first := u.wait(r, uid, now)
	if wait == 0 {
		return nil
	}
	if first {
		u.report(r, uid, known, now)
	}
	return heldError{until: now.Add(wait)}
}

// report reports an object whose marks are removed again and again.
func (u *repairs) report(r protocol.Ref, uid types.UID, known repair, now time.Time) {
	u.objects.config.Hooks.OnUndone(Undone{Object: u.objects.ref(r), Times: known.times, Pause: known.pause})
	if !u.notes.admit(now) { // there may be thousands
		return
	}
	log := u.objects.log(r)
	log.Warn("labels or annotations of the ring are removed as often as they are set; the next attempt waits",
		zap.Int("times", known.times), zap.Duration("pause", known.pause))
	u.objects.warn(r, uid, "LabelsRemoved", "Restore",
		"the labels or annotations of the ring were set on this object %d times and removed again; the "+
			"next attempt waits %v. What writes this object has to keep all keys with bellwether.dev: change "+
			"single labels instead of replacing all, or use a patch", known.times, known.pause)
}
