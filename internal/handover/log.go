package handover

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Log notes how the writes of a term were answered. A nil Log notes nothing. It is safe for
// concurrent use.
type Log struct {
	before Versions // of the terms before

	mu        sync.Mutex
	resources map[schema.GroupResource]*resource
	moments   int  // grows with each beginning and end of a write
	blind     bool // something unknown was written
}

// resource has what is known of one resource.
type resource struct {
	version string // the highest, or empty
	unknown int    // the moment since which it is unknown; zero if it is known
	open    int    // writes without an outcome
	lost    bool   // a write has no answer, and will have none
}

// NewLog returns the log of a term. before is what earlier terms have written.
func NewLog(before Versions) *Log {
	return &Log{before: before, resources: map[schema.GroupResource]*resource{}, moments: 1}
}

type logKey struct{}

// WithLog returns the context of the work of a term.
func WithLog(ctx context.Context, l *Log) context.Context { return context.WithValue(ctx, logKey{}, l) }

// LogOf returns the log of the term that ctx belongs to, or nil.
func LogOf(ctx context.Context) *Log {
	l, _ := ctx.Value(logKey{}).(*Log)
	return l
}

// Before returns up to which version the terms before have written a resource, see [Versions.Of].
func (l *Log) Before(r schema.GroupResource) (version string, known bool) {
	if l == nil {
		return "", false
	}
	return l.before.Of(r)
}

// Versions returns up to which version this term and those before have written each resource.
func (l *Log) Versions() Versions {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blind {
		return Unknown()
	}
	versions := Versions{}
	maps.Copy(versions, l.before)
	for name, r := range l.resources {
		switch {
		case r.open > 0 || r.lost || r.unknown > 0:
			versions[name.String()] = ""
		case r.version != "":
			versions[name.String()] = r.version
		}
	}
	return versions
}

// Blind notes that something will be written and that the resource is not known.
func (l *Log) Blind() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blind = true
}

// Begin notes that a write of a resource is about to be sent. Methods of Write note its outcome.
func (l *Log) Begin(name schema.GroupResource, kind Kind) *Write {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.resources[name]
	if r == nil {
		r = &resource{}
		var known bool
		if r.version, known = l.before.Of(name); !known {
			r.unknown = l.moments
		}
		l.resources[name] = r
	}
	l.moments++
	r.open++
	return &Write{log: l, resource: r, whole: kind == Whole, deletes: kind == Deletion, begun: l.moments}
}

// Kind is what the answer to a write can show.
type Kind int

// Kinds of writes.
const (
	Whole       Kind = iota // of an object: the answer to a creation has a new version
	Subresource             // a creation may be answered with an older version
	Deletion                // the answer has no version
)

// Write is a write under way, or a consistent list. Only the first outcome counts. A nil Write was
// not noted.
type Write struct {
	log      *Log
	resource *resource
	whole    bool // of an object, not of a subresource
	deletes  bool
	begun    int // the moment
	over     bool
}

// end notes the first outcome.
func (w *Write) end(outcome func(r *resource)) {
	if w == nil {
		return
	}
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if w.over {
		return
	}
	w.over = true
	w.resource.open--
	w.log.moments++
	outcome(w.resource)
}

// Refused notes that nothing was written, and nothing will be.
func (w *Write) Refused() { w.end(func(*resource) {}) }

// Lost notes that there is no answer, so that it may be written at any time in the term.
func (w *Write) Lost() { w.end(func(r *resource) { r.lost = true }) }

// Unseen notes that it was written, with a version that the answer does not contain.
func (w *Write) Unseen() { w.end(func(r *resource) { r.unknown = w.log.moments }) }

// Stored notes the version of an answer. It may be that of an older write, if this one has changed
// nothing.
func (w *Write) Stored(version string) {
	w.end(func(r *resource) { w.raise(r, version) })
}

// Above notes a version that is above those of all writes that were answered before this one began:
// that of a created object, or of a consistent list.
func (w *Write) Above(version string) {
	w.end(func(r *resource) {
		if w.raise(r, version) && r.unknown < w.begun {
			r.unknown = 0
		}
	})
}

// raise reports whether the version can be compared.
func (w *Write) raise(r *resource, version string) bool {
	least := r.version
	if least == "" {
		least = version
	}
	order, err := resourceversion.CompareResourceVersion(version, least)
	switch {
	case err != nil:
		r.unknown = w.log.moments
	case order >= 0:
		r.version = version
	}
	return err == nil
}
