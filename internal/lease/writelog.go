package lease

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// WriteLog records the writes of a process for one term, with the time when each was sent. A record
// is ours only if it is one of these writes. The term counts from when that write was sent, or from a
// later read that proves that it was not yet stored, not from the answer or the latest attempt: a lost
// response must not lengthen a term.
//
// Two processes with one identity and equal clocks can write the same spec, so the mark of the
// process distinguishes them.
type WriteLog struct {
	process  string // the mark of this process, or empty
	attempts []attempt
	record   Record        // the last known version of our record
	sent     clock.Reading // when its write was sent
}

// maxAttempts bounds the log during an outage. Attempts are at least some hundred milliseconds
// apart, and no request takes minutes.
const maxAttempts = 1000

type attempt struct {
	spec coordinationv1.LeaseSpec
	sent clock.Reading
}

// NewWriteLog returns an empty log of the process with this mark.
func NewWriteLog(process string) WriteLog { return WriteLog{process: process} }

// Standing returns the last known version of our record.
func (w *WriteLog) Standing() Record { return w.record }

// Sent returns when the write of the known version was sent.
func (w *WriteLog) Sent() clock.Reading { return w.sent }

// Forget forgets the known version, but not the writes, which may still arrive.
func (w *WriteLog) Forget() { w.record = Record{} }

// Record adds a write of l before it is sent, and marks l.
func (w *WriteLog) Record(l *coordinationv1.Lease, now clock.Reading) {
	if w.process != "" && markOf(&l.Spec) == TermAnnotation { // a release has the mark of its term
		SetProcess(l, w.process)
	}
	if len(w.attempts) == maxAttempts { // the oldest has arrived or failed
		w.attempts = w.attempts[1:]
	}
	w.attempts = append(w.attempts, attempt{*l.Spec.DeepCopy(), now})
}

// Contains reports whether Match would return true for r.
func (w *WriteLog) Contains(r Record) bool {
	return r.Exists() && w.record.UID() == r.UID() && w.marked(r) &&
		slices.ContainsFunc(w.attempts, func(a attempt) bool {
			return SameSpec(&a.spec, &r.lease.Spec)
		})
}

// Match reports whether r is one of our writes, and if so makes it the known version. A spec that
// differs in any field is not ours, even if it names us as the holder. Metadata may differ, except
// for the mark of another process.
func (w *WriteLog) Match(r Record) bool {
	if !r.Exists() || w.record.Exists() && w.record.UID() != r.UID() || !w.marked(r) {
		return false
	}
	for _, a := range w.attempts {
		if SameSpec(&a.spec, &r.lease.Spec) {
			if !w.record.SameVersion(r) {
				// All other attempts were swaps on versions that are gone. Until then they may be
				// under way.
				w.attempts = []attempt{a}
			}
			w.record, w.sent = r, a.sent
			return true
		}
	}
	return false
}

// Unstored notes that a consistent read, sent at the time asked, has shown the version before our
// pending writes: the known one, or that of another process. What is stored later was not in the
// record then, and a candidate receives it later still, so its term counts from asked.
func (w *WriteLog) Unstored(asked clock.Reading) {
	for i, a := range w.attempts {
		pending := !w.record.Exists() || !SameSpec(&a.spec, &w.record.lease.Spec)
		if pending && asked.SinceAtLeast(a.sent) > 0 {
			w.attempts[i].sent = asked
		}
	}
}

// marked reports whether r has no mark of another process. A user may have removed ours.
func (w *WriteLog) marked(r Record) bool {
	process, _ := r.process()
	return process == "" || process == w.process
}

// Stamps makes the renew times of one process: unique whole seconds, because client-go's elector,
// and some API servers and webhooks, keep no fractions. Without uniqueness, a wall clock that steps
// back could hide a renewal.
type Stamps struct{ last time.Time }

// StampsAfter returns stamps that are later than the renew time of another process.
func StampsAfter(last time.Time) Stamps { return Stamps{last} }

// Next returns the wall time, or a second after the last stamp if that is later.
func (s *Stamps) Next(wall time.Time) metav1.MicroTime {
	t := wall.UTC().Truncate(time.Second)
	if next := s.last.Add(time.Second); t.Before(next) {
		t = next
	}
	s.last = t
	return metav1.MicroTime{Time: t}
}
