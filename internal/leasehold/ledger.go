package leasehold

import "time"

// noLedger is the ledger of a process without a supervisor.
type noLedger struct{}

func (noLedger) Now() time.Duration                      { return 0 }
func (noLedger) Hold(time.Duration, time.Duration, bool) {}
func (noLedger) Free()                                   {}
func (noLedger) Send()                                   {}
func (noLedger) Answer(time.Duration)                    {}
func (noLedger) Begin(uint64) (end func())               { return func() {} }

// recordTerm records in the ledger until when the term lasts. Only the renewing goroutine calls it.
func (t *Term) recordTerm() {
	booked := t.ledger.Now() // first: a stop before the next line shortens the time
	now := t.clock.Now()
	t.mu.Lock()
	left := t.left(now)
	t.mu.Unlock()
	t.ledger.Hold(t.began, booked+left, t.guard != nil && t.guard.Installed())
}
