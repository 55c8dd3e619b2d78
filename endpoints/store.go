package endpoints

import (
	"context"
	"errors"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Store is where instances register: a [ConfigMapStore] or a [LeaseStore]. All instances of a
// Service must use the same.
type Store interface {
	withDefaults(Config) Store
	// problems returns what is wrong with the store, or with what config would store in it. Each
	// error names its field.
	problems(Config) []error
	open(kubernetes.Interface, Config) store
}

// store is an open [Store]. Each instance has its own entries in it and keeps rewriting them. A
// write applies only to what was read, and returns errConflict if that has changed.
type store interface {
	// own returns the keys of this instance's entries.
	own() []string
	// read returns all entries. The read is consistent: it contains all earlier writes.
	read(ctx context.Context) (snapshot, error)
	// refresh writes this instance's entries and returns the resulting snapshot.
	refresh(ctx context.Context, s snapshot, h heartbeat) (snapshot, error)
	// remove removes these entries if they are as in s. It returns the resulting snapshot and the
	// keys that this call has removed, which with an error may not be all.
	remove(ctx context.Context, s snapshot, keys []string) (next snapshot, removed []string, err error)
	// mine reports whether this process wrote an entry, rather than another one with the same
	// address and port.
	mine(entry) bool
}

// heartbeat is what a process writes into its entries.
type heartbeat struct {
	wall        time.Time
	incarnation string // see incarnation.proved
}

// snapshot is the content of a store at one time. Its map is never changed.
type snapshot struct {
	// incarnation changes when the store is deleted and created again, and is empty without a store.
	incarnation string
	version     string // for writes that depend on the whole snapshot
	entries     map[string]entry
}

// entry is the entry of an instance.
type entry struct {
	endpoints []Endpoint
	// mark changes with every heartbeat. Compare it only for equality, because times in it are of other clocks.
	mark string
	// problem is why the entry is malformed, or nil.
	problem error
	// deleted reports whether the entry was removed, and is kept by a finalizer.
	deleted bool
	// created is when the writing process registered, by its clock. Only the instance itself uses
	// it.
	created time.Time
	// incarnation is that of the process that wrote it, while only that process had the name, or
	// empty if unknown.
	incarnation string
	// raw is what the store needs to change the entry.
	raw any
}

// errConflict is returned for a write that was not applied, because what it depends on has changed.
var errConflict = errors.New("changed meanwhile")

// nextTimestamp returns the time to write over standing: later than standing, however the clock was
// set, so that others see a change. If standing is maxFutureSkew or more ahead, it is wrong and is
// replaced by the wall time. resolution is that of the store's times.
func nextTimestamp(wall, standing time.Time, resolution time.Duration) time.Time {
	wall = wall.UTC().Truncate(resolution)
	next := standing.UTC().Truncate(resolution).Add(resolution)
	if next.After(wall) && next.Sub(wall) < maxFutureSkew {
		return next
	}
	return wall
}

// latestCreation returns the creation timestamp to write over standing: that of the latest process
// with this address and port, so that an earlier process does not withdraw the entry of its
// successor.
func latestCreation(born, standing time.Time) time.Time {
	if standing.After(born) && standing.Sub(born) < maxFutureSkew {
		return standing
	}
	return born
}

// maxFutureSkew bounds how far in the future a timestamp of our entries is believed.
const maxFutureSkew = 24 * time.Hour
