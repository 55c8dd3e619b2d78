package lease

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// WriteLog is what a process knows about a term of its own: which writes it has sent and when. Whatever is read back from
// the API server is ours only if it is one of these writes, and counts from the time when exactly that one was sent,
// not from the time of the answer, of the read, or of the latest attempt: a lost response must not lengthen a term.
//
// Two processes that were given one identity, and whose clocks agree, can write the same spec: which of
// them has written a record, the mark of the process says.
type WriteLog struct {
	process  string // the mark of this process; empty: none
	attempts []attempt
	record   Record        // the version that stands, as far as we know
	sent     clock.Reading // when the write was sent that made it
}

// maxAttempts bounds what a candidate remembers during an outage. Attempts are at least some hundred milliseconds apart, and no
// request is under way for minutes.
const maxAttempts = 1000

type attempt struct {
	spec coordinationv1.LeaseSpec
	sent clock.Reading
}

// NewClaim returns the claim of a process, which has sent nothing.
func NewWriteLog(process string) WriteLog { return WriteLog{process: process} }

// Record notes, before it is sent, a write of l, and marks it.
func (c *WriteLog) Record(l *coordinationv1.Lease, now clock.Reading) {
	if c.process != "" {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, ProcessAnnotation, c.process)
	}
	if len(c.attempts) == maxAttempts { // the oldest has long arrived or failed
		c.attempts = c.attempts[1:]
	}
	c.attempts = append(c.attempts, attempt{*l.Spec.DeepCopy(), now})
}

// Contains reports whether r is one of the versions that Match would take.
func (c *WriteLog) Contains(r Record) bool {
	return r.Exists() && c.record.UID() == r.UID() && c.marked(r) &&
		slices.ContainsFunc(c.attempts, func(a attempt) bool { return apiequality.Semantic.DeepEqual(a.spec, r.lease.Spec) })
}

// Match reports whether r was written by this claim, and if so makes it the standing version. A spec that differs in
// any field is somebody else's, also when it still names us as the holder. Metadata may differ, but for
// the mark of another process.
func (c *WriteLog) Match(r Record) bool {
	if !r.Exists() || c.record.Exists() && c.record.UID() != r.UID() || !c.marked(r) {
		return false
	}
	for _, a := range c.attempts {
		if apiequality.Semantic.DeepEqual(a.spec, r.lease.Spec) {
			if !c.record.sameVersion(r) {
				// Every other attempt was a swap on a version that is gone. While a version stands, they may
				// still be under way.
				c.attempts = []attempt{a}
			}
			c.record, c.sent = r, a.sent
			return true
		}
	}
	return false
}

// marked reports whether no other process has marked r. Somebody may have removed the mark.
func (c *WriteLog) marked(r Record) bool {
	mark := r.lease.Annotations[ProcessAnnotation]
	return mark == "" || mark == c.process
}

// Stamps gives out the renew times of one process. Each is a whole second, and unique: that is all that
// client-go's elector sees of a record, and all that some API servers and webhooks keep of it. After a
// step back of the wall clock two renewals would look like none.
type Stamps struct{ last time.Time }

// Next returns the wall time, or a second after the stamp before if that is later.
func (s *Stamps) Next(wall time.Time) metav1.MicroTime {
	t := wall.UTC().Truncate(time.Second)
	if next := s.last.Add(time.Second); t.Before(next) {
		t = next
	}
	s.last = t
	return metav1.MicroTime{Time: t}
}
