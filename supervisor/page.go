package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"sync/atomic"
	"time"
	"unsafe"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// page is the memory that supervisor and child share. Pages that were not written take no memory.
type page struct {
	magic [16]byte
	used  atomic.Int32 // slots
	slots [256]slot
}

// magic has a version: both processes run the same program, but not if its file was replaced.
var magic = [16]byte{'b', 'e', 'l', 'l', 'w', 'e', 't', 'h', 'e', 'r', ' ', '3'}

// slot has what the supervisor needs for one lease. The child writes it, and the supervisor reads
// it when the child has ended. A child may die between any two writes.
type slot struct {
	since, until atomic.Int64 // of the term, by the boot clock; until is zero without a term
	open         atomic.Int64 // guarded requests without an answer
	openUntil    atomic.Int64 // requests that have failed may be carried out until then
	guarded      atomic.Bool
	length       atomic.Int32 // of the description; zero while it is being written
	unnamed      atomic.Int64 // objects at work that have no place in work
	work         [64]atomic.Uint64
	stored       atomic.Uint64 // the length and the checksum of record; zero while it is being written
	record       [4096]byte    // a version of the Lease
	text         [16384 - 48 - 64*8]byte
}

var _ lease.Ledger = (*slot)(nil)

// description has what does not change in a term.
type description struct {
	Claim       lease.Claim
	Credentials credentials
}

const pageSize = int(unsafe.Sizeof(page{}))

// open returns a slot that is not in use.
func (p *page) open() (*slot, error) {
	n := int(p.used.Add(1))
	if n > len(p.slots) {
		return nil, fmt.Errorf("this process has more than %d leases", len(p.slots))
	}
	return &p.slots[n-1], nil
}

func (s *slot) describe(d description) error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if len(text) > len(s.text) {
		return fmt.Errorf("config: credentials must fit in %d bytes (got %d): use files", len(s.text), len(text))
	}
	s.length.Store(0)
	copy(s.text[:], text)
	s.length.Store(int32(len(text)))
	return nil
}

// description returns the description. ok is false if there is no valid one.
func (s *slot) description() (d description, ok bool, err error) {
	n := int(s.length.Load())
	if n == 0 {
		return d, false, nil
	}
	if n < 0 || n > len(s.text) {
		return d, false, errors.New("the memory of the process is damaged")
	}
	err = json.Unmarshal(s.text[:n], &d)
	return d, err == nil, err
}

// Now implements lease.Ledger.
func (s *slot) Now() time.Duration { return process.SinceBoot() }

// Hold implements lease.Ledger. A child that dies between two of the writes leaves the end of an
// earlier term.
func (s *slot) Hold(since, until time.Duration, guarded bool) {
	s.since.Store(int64(since))
	s.guarded.Store(guarded)
	s.until.Store(int64(until))
}

// Stored implements lease.Ledger. The supervisor reads a Lease that does not fit.
func (s *slot) Stored(r lease.Record) {
	s.stored.Store(0)
	l := *r.Lease()
	l.ManagedFields = nil // a release leaves them as they are
	text, err := l.Marshal()
	if err != nil || len(text) > len(s.record) {
		return
	}
	copy(s.record[:], text)
	s.stored.Store(uint64(len(text))<<32 | uint64(crc32.ChecksumIEEE(text)))
}

// lastStored returns the version of the Lease that the child has left. It is absent if the child
// died while it was writing it, as the checksum shows.
func (s *slot) lastStored() lease.Record {
	header := s.stored.Load()
	n := header >> 32
	if n == 0 || n > uint64(len(s.record)) {
		return lease.Record{}
	}
	l := &coordinationv1.Lease{}
	if crc32.ChecksumIEEE(s.record[:n]) != uint32(header) || l.Unmarshal(s.record[:n]) != nil {
		return lease.Record{}
	}
	return lease.RecordOf(l)
}

// Free implements lease.Ledger.
func (s *slot) Free() { s.until.Store(0) }

// Send implements lease.Ledger.
func (s *slot) Send() { s.open.Add(1) }

// Answer implements lease.Ledger. Calls exclude each other.
func (s *slot) Answer(until time.Duration) {
	s.openUntil.Store(max(s.openUntil.Load(), int64(until)))
	s.open.Add(-1) // last
}

// Begin implements lease.Ledger. A child that dies between two of the writes omits an object on
// which no work had begun, or names one on which work had ended.
func (s *slot) Begin(object uint64) (end func()) {
	for i := range s.work {
		if s.work[i].CompareAndSwap(0, object) {
			return func() { s.work[i].Store(0) }
		}
	}
	s.unnamed.Add(1)
	return func() { s.unnamed.Add(-1) }
}

func (s *slot) entries() lease.Entries {
	work := lease.Work{All: s.unnamed.Load() == 0}
	for i := range s.work {
		if object := s.work[i].Load(); object != 0 {
			work.Objects = append(work.Objects, object)
		}
	}
	return lease.Entries{
		Work:  work,
		Since: time.Duration(s.since.Load()), Until: time.Duration(s.until.Load()), Guarded: s.guarded.Load(),
		Open: int(s.open.Load()), OpenUntil: time.Duration(s.openUntil.Load()), Stored: s.lastStored(),
	}
}
