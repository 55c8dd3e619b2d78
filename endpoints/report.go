package endpoints

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
)

// Hooks are functions that a [Reconciler] calls when something happens, for metrics and tests. Each may
// be nil. They are called synchronously, one at a time, and must return quickly, because heartbeats and
// the end of Run wait for them. A method of the Reconciler that a hook calls returns [ErrBusy].
type Hooks struct {
	// OnRound is called at the end of each round.
	OnRound func(Round)
	// OnPublished is called with the published endpoints, sorted, after this instance has changed
	// them.
	OnPublished func([]Endpoint)
	// OnExpired is called with each entry that this instance removed because it was not refreshed.
	OnExpired func(Status)
	// OnMalformed is called once for each version of an entry that no instance can have written.
	// The entry is not changed.
	OnMalformed func(Status)
	// OnExpireAfter is called when the run-time setting changes the expiry.
	OnExpireAfter func(time.Duration)
}

// call calls a hook that may be nil.
func call[T any](hook func(T), about T) {
	if hook != nil {
		hook(about)
	}
}

// Round is the result of one round of a [Reconciler].
type Round struct {
	// Withdrawing reports whether the round was meant to withdraw this instance instead of
	// refreshing its entry, because it is not ready or it ends.
	Withdrawing bool
	// Entries are the content of the store at the end, sorted by key, or nil if the store could not be read.
	Entries []Status
	// Heartbeats and Publications (changes of what is published) count successful writes.
	Heartbeats, Publications int
	// Removals counts the entries that this instance removed: expired ones, its own, and those of
	// earlier processes of its Pod.
	Removals int
	// Took is the duration of the round.
	Took time.Duration
	// Err is what the round could not do; the rest is done.
	Err error
}

// Status is the state of an entry in the store.
type Status struct {
	// Key of the entry in the store.
	Key string
	// Own reports whether it is this instance's entry.
	Own bool
	// Endpoints of the instance, or nil if the entry is malformed.
	Endpoints []Endpoint
	// Unchanged is how long this instance has seen the entry without a heartbeat.
	Unchanged time.Duration
	// Problem is why the entry is malformed, or nil.
	Problem error
}

// maxNote is the longest note that the API server accepts.
const maxNote = 1024

// event records an Event about the Service.
func (r *Reconciler) event(eventType, reason, action, format string, args ...any) {
	if r.config.Events == nil {
		return
	}
	note := fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") // drops a rune that was cut
	}
	about := &corev1.Service{}
	about.APIVersion, about.Kind = "v1", "Service"
	about.Namespace, about.Name, about.UID = r.config.Namespace, r.config.Service, r.serviceUID
	r.config.Events.Eventf(about, nil, eventType, reason, action, "%s", note)
}

// report records what the store holds, and reports malformed entries.
func (p *pass) report(v *view) {
	r, now, entries := p.reconciler, p.reconciler.config.clock.Now(), v.store.entries
	p.result.Entries = []Status{}
	maps.DeleteFunc(r.malformed, func(key, mark string) bool {
		return entries[key].problem == nil || entries[key].mark != mark
	})
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		e := entries[key]
		status := v.status(key, e, now)
		p.result.Entries = append(p.result.Entries, status)
		if _, told := r.malformed[key]; told || e.problem == nil {
			continue
		}
		r.malformed[key] = e.mark
		r.config.Logger.Warn("ignoring malformed entry", zap.String("entry", key), zap.Error(e.problem))
		r.event(corev1.EventTypeWarning, "EndpointMalformed", "Ignore", "entry %s is not published: %v", key, e.problem)
		call(r.config.Hooks.OnMalformed, status)
	}
}
