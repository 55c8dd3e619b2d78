package lease

import "time"

// Ledger is what the supervisor of this process reads when the process has died: until when a term
// lasts, and whether a guarded request may be under way. Both processes share its memory, so nothing
// is lost in a crash. Its methods return at once. They may be called at any time.
type Ledger interface {
	// Now reads the clock of the ledger, which is also that of the supervisor.
	Now() time.Duration
	// Hold records when a term has begun, when it ends if it is not renewed, and whether a client is
	// guarded: then all requests that count are.
	Hold(since, until time.Duration, guarded bool)
	// Free records that no term is held.
	Free()
	// Send counts a guarded request that is about to be sent.
	Send()
	// Answer records that a request was answered, or has failed and may be carried out until then.
	Answer(until time.Duration)
}

// noLedger is that of a process without a supervisor.
type noLedger struct{}

func (noLedger) Now() time.Duration                      { return 0 }
func (noLedger) Hold(time.Duration, time.Duration, bool) {}
func (noLedger) Free()                                   {}
func (noLedger) Send()                                   {}
func (noLedger) Answer(time.Duration)                    {}

// recordTerm records in the ledger until when the term lasts. Only the renewing goroutine calls it.
func (t *Term) recordTerm() {
	booked := t.ledger.Now() // first: a stop before the next line shortens the time
	now := t.clock.Now()
	t.mu.Lock()
	left := t.left(now)
	t.mu.Unlock()
	t.ledger.Hold(t.began, booked+left, t.guard != nil && t.guard.Installed())
}
