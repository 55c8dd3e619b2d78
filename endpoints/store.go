package endpoints

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Store says where instances register. All instances of a Service must have the same: a [ConfigMapStore] or a [LeaseStore].
type Store interface {
	withDefaults(Config) Store
	// problems of the store, or of what config wants to keep in it, with the names of fields.
	problems(Config) []error
	open(kubernetes.Interface, Config) store
}

// store is where instances register: each has entries of its own there, and rewrites them again and again. No write of a store
// changes what was not read before, or was changed meanwhile; then it returns an errConflict.
type store interface {
	// own are the keys of this instance's entries.
	own() []string
	// read returns all entries. It is consistent: what was written before is in it.
	read(ctx context.Context) (snapshot, error)
	// refresh writes the own entries, and returns what the store holds then.
	refresh(ctx context.Context, s snapshot, h heartbeat) (snapshot, error)
	// remove removes these entries as they are in s, and returns what the store holds then, and which of them it has removed itself. Those are
	// not all if there is an error.
	remove(ctx context.Context, s snapshot, keys []string) (next snapshot, removed []string, err error)
	// mine reports whether an own entry was written by this process, rather than by another one with the same address and port.
	mine(entry) bool
}

// heartbeat is what a process writes into its entries.
type heartbeat struct {
	wall        time.Time
	incarnation string // see incarnation.proved
}

// snapshot is what a store holds at one time. Its map is not changed.
type snapshot struct {
	// incarnation changes when the store was deleted and made anew, with all that was in it. Empty: there is none.
	incarnation string
	version     string // for a write that depends on all that was read
	entries     map[string]entry
}

// entry of an instance.
type entry struct {
	endpoints []Endpoint
	// mark is another one after every heartbeat. It says nothing else: times in it are somebody's clock.
	mark string
	// problem is why the entry is malformed; nil if it is not.
	problem error
	// created is when the process that wrote it entered it, by its clock. Only the instance itself looks at it.
	created time.Time
	// incarnation is that of the process that wrote it, which was then the only one of that name.
	// Empty: not known.
	incarnation string
	// raw is what the store needs to change it.
	raw any
}

// errConflict is that of a write that was not carried out because something has changed since it was decided.
var errConflict = errors.New("changed meanwhile")

// following is a time for an own entry: later than the one that stands there, however the clock was set, so that others see it change.
// A time of another day is a mistake of somebody's, which must not last. The resolution is that of the store's times.
func following(wall, standing time.Time, resolution time.Duration) time.Time {
	wall = wall.UTC().Truncate(resolution)
	next := standing.UTC().Truncate(resolution).Add(resolution)
	if next.After(wall) && next.Sub(wall) < mistake {
		return next
	}
	return wall
}

// youngest is the creation timestamp to write for a process that has born, over standing: that of the process with this address and port that
// came last, so that an earlier one does not withdraw the entry of its successor.
func youngest(born, standing time.Time) time.Time {
	if standing.After(born) && standing.Sub(born) < mistake {
		return standing
	}
	return born
}

// mistake is how far ahead no time of an own entry is: another process of this machine wrote it, if not a person.
const mistake = 24 * time.Hour
