package process

import (
	"errors"
	"sync"
	"time"
)

// ErrPID1 is returned by [NewKillTimer] in a process that is PID 1 of its pid namespace.
var ErrPID1 = errors.New("kill timer: this process is PID 1 of its pid namespace, which its own timer cannot kill: " +
	"set shareProcessNamespace: true in the Pod, or start the program by an init such as tini, " +
	"or call leaderelection.ReexecIfPID1 first in main")

var errClosed = errors.New("kill timer: the timer is closed")

// KillTimer makes the kernel kill this process with SIGKILL at a deadline.
//
// A time.Timer needs a running thread of the process. A KillTimer, which is a POSIX timer, does
// not, so it also ends a process that spins in all its threads, waits for the garbage collector, or
// was stopped by SIGSTOP. It outlives the thread that created it. It counts while the machine is
// suspended (CLOCK_BOOTTIME) and then fires on resume, before work continues. It needs no memory
// when it fires, because [NewKillTimer] allocates the signal.
//
// It does not end:
//
//   - PID 1 of a pid namespace, as in a normal container, because the kernel drops a SIGKILL that
//     such a process sends itself. NewKillTimer returns [ErrPID1], which names the ways out.
//   - A process that replaces itself with execve (syscall.Exec), because the kernel deletes its
//     timers.
//   - Children, because fork does not inherit timers. A child that acts for the leader needs its
//     own end, such as SysProcAttr.Pdeathsig or a pipe whose end it watches.
//   - A system call that cannot be interrupted, such as I/O on a hung disk, before it returns. No
//     code runs after it. Requests that were sent may still arrive.
//   - A virtual machine that its hypervisor pauses, because the clock stops with it.
//   - Anything on systems other than Linux and in sandboxes that forbid the calls: NewKillTimer
//     returns an error that matches errors.ErrUnsupported.
//
// NewKillTimer tries every system call that Set makes, so it never degrades silently.
//
// A KillTimer is safe for concurrent use; the last of concurrent calls wins. The zero KillTimer is
// closed. An armed timer fires even if nothing refers to it.
type KillTimer struct {
	mu   sync.Mutex
	open bool // or a call after Close could reach a later timer with the same id
	id   int32
}

// NewKillTimer returns a timer that is not armed. The error is [ErrPID1], or errors.ErrUnsupported
// where the system has no such timer or forbids it, or it names a limit (RLIMIT_SIGPENDING).
func NewKillTimer() (*KillTimer, error) {
	id, err := createTimer()
	if err != nil {
		return nil, err
	}
	t := &KillTimer{id: id, open: true}
	if err := t.Stop(); err != nil { // a sandbox may allow creating timers but not setting them
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Set arms or re-arms the timer to fire in d, at once if d is not positive. After an error the
// timer is unchanged.
//
// If the process is stopped before this call, the deadline moves by as much, so use SetAt for a
// fixed deadline.
func (t *KillTimer) Set(d time.Duration) error { return t.set(max(d, 1), false) } // 0 would disarm it

// SetAt is Set for a reading of [SinceBoot]. The timer fires at once if it has passed.
func (t *KillTimer) SetAt(at time.Duration) error { return t.set(max(at, 1), true) }

// Stop disarms the timer. It does nothing to a closed timer.
func (t *KillTimer) Stop() error {
	if err := t.set(0, false); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}

func (t *KillTimer) set(d time.Duration, absolute bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return errClosed
	}
	return setTimer(t.id, d, absolute)
}

// Close disarms the timer and frees it. Later calls of Close and Stop do nothing; Set fails.
func (t *KillTimer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.open {
		return nil
	}
	t.open = false
	return deleteTimer(t.id)
}
