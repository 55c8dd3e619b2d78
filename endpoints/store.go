package endpoints

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Store is where instances register: a [ConfigMapStore] or a [LeaseStore]. All instances of a
// Service must use the same.
type Store interface {
	withDefaults(Config) Store
	// problems returns what is wrong with the store, or with what config would store in it. Each
	// error names its field.
	problems(Config) []error
	// open also returns the keys of this instance's entries, sorted.
	open(kubernetes.Interface, Config) (s store, keys []string)
	rights() []kube.Right
}

// store is an open [Store]. Each instance has its own entries in it and keeps rewriting them. A
// write applies only to what was read, and returns errConflict if that has changed.
type store interface {
	// resolution is that of the times in entries.
	resolution() time.Duration
	// read returns all entries. The read is consistent: it contains all earlier writes.
	read(ctx context.Context) (snapshot, error)
	// refresh writes this instance's entries and returns the resulting snapshot.
	refresh(ctx context.Context, s snapshot, h heartbeat) (snapshot, error)
	// remove removes these entries if they are as in s. It returns the resulting snapshot and the
	// keys that this call has removed, which with an error may not be all.
	remove(ctx context.Context, s snapshot, keys []string) (next snapshot, removed []string, err error)
}

// heartbeat is what a process writes into its entries.
type heartbeat struct {
	wall        time.Time
	born        time.Time // creation timestamp that the process writes
	incarnation string    // see incarnation.proved
}

// snapshot is the content of a store at one time. Its map is never changed.
type snapshot struct {
	// incarnation changes when the store is deleted and created again, and is empty without a store.
	incarnation string
	version     string // for writes that depend on the whole snapshot
	entries     map[string]entry
}

// holds reports whether the store has some of these entries, and whether it has all of them.
func (s snapshot) holds(keys []string) (some, all bool) {
	n := 0
	for _, key := range keys {
		if _, exists := s.entries[key]; exists {
			n++
		}
	}
	return n > 0, n == len(keys)
}

// birth returns a creation timestamp that no earlier process with these keys has had.
func (s snapshot) birth(own []string, wall time.Time, resolution time.Duration) time.Time {
	var last time.Time
	for _, key := range own {
		if created := s.entries[key].created; created.After(last) {
			last = created
		}
	}
	return nextTimestamp(wall, last, resolution)
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

// kind is a kind of object that an instance reads or writes.
type kind struct {
	name     string
	resource schema.GroupResource
}

var (
	serviceKind   = kind{"Service", corev1.Resource("services")}
	sliceKind     = kind{"EndpointSlice", discoveryv1.Resource("endpointslices")}
	endpointsKind = kind{"Endpoints", corev1.Resource("endpoints")}
	configMapKind = kind{"ConfigMap", corev1.Resource("configmaps")}
	leaseKind     = kind{"Lease", coordinationv1.Resource("leases")}
)

// failed returns err with the request about at, which is the Service in a list. For a write that was not
// applied because its object has changed, that is an errConflict. If ctx has ended, failed adds why,
// which err lacks over HTTP/2.
func (k kind) failed(ctx context.Context, verb string, at types.NamespacedName, err error) error {
	e := &kube.RequestError{
		Right:  kube.Right{Verb: verb, Resource: k.resource, Namespace: at.Namespace, Name: at.Name},
		Object: k.name + " " + at.String(), Err: err,
	}
	switch {
	case err == nil:
		return nil
	case verb == "list":
		e.Name, e.Object = "", fmt.Sprintf("%ss of Service %s in namespace %s", k.name, at.Name, at.Namespace)
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), verb != "get" && verb != "create" && e.Absent():
		return fmt.Errorf("endpoints: %s %s: %w: %w", verb, e.Object, errConflict, err)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		e.Err = fmt.Errorf("%w: %w", err, cause)
	}
	return fmt.Errorf("endpoints: %w", e)
}

// existing returns the error of a creation of an object that exists although no list contained it. err is that of
// reading it, and foreign why it is not ours.
func (k kind) existing(ctx context.Context, at types.NamespacedName, err error, foreign string) error {
	switch {
	case k.absent(err, at), err == nil && foreign == "":
		return fmt.Errorf("endpoints: create %s %v: %w", k.name, at, errConflict)
	case err != nil:
		return k.failed(ctx, "get", at, err)
	}
	return fmt.Errorf("endpoints: create %s %v: %w: %s", k.name, at, ErrForeign, foreign)
}

// absent reports whether err is the API server's statement that this object does not exist.
func (k kind) absent(err error, at types.NamespacedName) bool {
	return kube.Absent(err, k.resource, at.Name)
}
