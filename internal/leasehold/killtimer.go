package leasehold

import (
	"fmt"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// KillTimer is a [process.KillTimer]. It ends the process where the term's own timer cannot,
// because the process is stopped or starved.
type KillTimer interface {
	SetAt(boot time.Duration) error
	Stop() error
}

// armKillTimer sets the kill timer to half a margin after the deadline. Only the renewing goroutine
// calls it, so no earlier deadline replaces a later one.
func (t *Term) armKillTimer() {
	if t.kill == nil {
		return
	}
	boot := process.SinceBoot() // first: a stop before the next line shortens the time
	now := t.clock.Now()
	t.mu.Lock()
	at := boot + t.left(now) + t.timing.Margin/2
	t.mu.Unlock()
	if err := t.kill.SetAt(at); err != nil { // the earlier deadline, if any, remains
		t.lose(fmt.Errorf("%w: %w", lease.ErrKillTimer, err), t.identity)
	}
}

// DisarmKillTimer disarms the kill timer. No work of the term may be running.
func (t *Term) DisarmKillTimer() {
	if t.kill != nil {
		_ = t.kill.Stop() // a failure is safe: the process ends
	}
}
