package killtimer

import (
	"errors"
	"sync"
	"time"
)

// ErrPID1 is why there is no Timer in a process that is PID 1 of its pid namespace.
var ErrPID1 = errors.New("killtimer: this process is PID 1 of its pid namespace, which its own timer cannot kill: " +
	"set shareProcessNamespace: true in the Pod, or start the program by an init such as tini, " +
	"or call leaderelection.ReexecIfPID1 first in main")

var errClosed = errors.New("killtimer: the timer is closed")

// Timer kills this process with SIGKILL when it fires. It is safe for concurrent use; of calls that race, the last one
// to get through stands. The zero Timer is closed. One that is armed fires even if nobody refers to it any more.
type Timer struct {
	mu   sync.Mutex
	open bool // or a call after Close could reach a later Timer, to which the kernel gave the same id
	id   int32
}

// New returns a Timer that is not armed. Its error is [ErrPID1], or errors.ErrUnsupported where the system has no such
// timer or does not allow it, or else a limit (RLIMIT_SIGPENDING).
func New() (*Timer, error) {
	id, err := create()
	if err != nil {
		return nil, err
	}
	t := &Timer{id: id, open: true}
	if err := t.Stop(); err != nil { // sets it, or who can create timers but not set them would learn it too late
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Set arms the Timer, or arms it anew, to fire in d; at once if d is not positive. After an error it stands as before.
//
// A process that is stopped between working out d and this call gets as much more time: use SetAt for a deadline.
func (t *Timer) Set(d time.Duration) error { return t.set(max(d, 1), false) } // the kernel takes 0 for disarmed

// SetAt is Set for a point in time, a reading of boottime.Now; at once if it has passed.
func (t *Timer) SetAt(at time.Duration) error { return t.set(max(at, 1), true) }

// Stop disarms the Timer. A closed one is disarmed.
func (t *Timer) Stop() error {
	if err := t.set(0, false); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

func (t *Timer) set(d time.Duration, absolute bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return errClosed
	}
	return settime(t.id, d, absolute)
}

// Close disarms the Timer and gives it back to the kernel. Later calls of Close and Stop do nothing, those of Set fail.
func (t *Timer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return nil
	}
	t.open = false
	return remove(t.id)
}
