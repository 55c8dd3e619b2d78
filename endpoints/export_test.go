package endpoints

import "github.com/bellwether-k8s/bellwether/internal/clock"

// Wire names, for tests of their use.
const (
	ServiceLabel        = serviceLabel
	NamespaceLabel      = namespaceLabel
	EndpointsAnnotation = endpointsAnnotation
)

// EntryKey and ParseEntryKey are reverses of each other.
var EntryKey, ParseEntryKey = entryKey, parseEntryKey

// SetClock replaces the system's clock.
func (c *Config) SetClock(clock clock.Clock) { c.clock = clock }

// SetProcessLock replaces process.Lock.
func (r *Reconciler) SetProcessLock(lock func(name string) (release func(), err error)) {
	r.incarnation.lock = lock
}
