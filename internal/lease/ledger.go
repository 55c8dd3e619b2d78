package lease

import "time"

// Ledger is what the supervisor of this process reads when the process has died: until when a term
// lasts, and whether a guarded request may be under way. Both processes share its memory, so
// nothing is lost in a crash. Its methods return at once and may be called at any time.
type Ledger interface {
	// Now reads the clock of the ledger, which is also that of the supervisor.
	Now() time.Duration
	// Hold records when a term has begun, when it ends if it is not renewed, and whether a client
	// is guarded, because then all requests that count are.
	Hold(since, until time.Duration, guarded bool)
	// Free records that no term is held.
	Free()
	// Send counts a guarded request that is about to be sent.
	Send()
	// Answer records that a request was answered, or has failed and may be carried out until then.
	Answer(until time.Duration)
	// Begin records that work on an object, by its digest, has begun. Call end when it has ended.
	Begin(object uint64) (end func())
}

// Entries are the contents of a [Ledger]. Times are readings of its clock.
type Entries struct {
	Since, Until time.Duration // of the term; both zero if none was held
	Guarded      bool          // a client was guarded
	Open         int           // guarded requests without an answer
	OpenUntil    time.Duration // requests that have failed may be carried out until then
	Work         Work
}
