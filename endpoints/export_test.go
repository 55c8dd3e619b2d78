package endpoints

import "github.com/bellwether-k8s/bellwether/internal/clock"

// ParseKey is the reverse of Key.
var ParseKey = parseKey

// SystemClock is the default.
func SystemClock() Clock { return clock.System() }

// SetOccupy replaces process.Lock.
func (r *Reconciler) SetOccupy(occupy func(name string) (release func(), err error)) {
	r.incarnation.occupy = occupy
}
