package process

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigevent is struct sigevent of asm-generic/siginfo.h. It has 64 bytes on all systems.
type sigevent struct {
	value  uintptr
	signo  int32
	notify int32 // 0 is SIGEV_SIGNAL: to the process, not to a thread that may have ended
	_      [64 - 2*4 - unsafe.Sizeof(uintptr(0))]byte
}

func createTimer() (id int32, err error) {
	if os.Getpid() == 1 {
		return 0, ErrPID1
	}
	event := sigevent{signo: int32(unix.SIGKILL)}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	return id, timerError("timer_create", errno)
}

// setTimer disarms the timer if d is zero. On 32-bit systems it is the old call with 32 bits of
// seconds, which suffice for a time since boot. Kernels built without it return ENOSYS.
func setTimer(id int32, d time.Duration, absolute bool) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))} // no interval: once
	if spec.Value.Nano() != int64(d) {
		return fmt.Errorf("kill timer: %v does not fit in this system's timers", d)
	}
	var flags uintptr
	if absolute {
		flags = unix.TIMER_ABSTIME
	}
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(id), flags, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return timerError("timer_settime", errno)
}

func deleteTimer(id int32) error {
	_, _, errno := unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	return timerError("timer_delete", errno)
}

// timerError returns nil for 0. ENOSYS matches errors.ErrUnsupported already.
func timerError(call string, errno unix.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN: // see timer_create(2)
		var limit unix.Rlimit
		_ = unix.Getrlimit(unix.RLIMIT_SIGPENDING, &limit)
		return fmt.Errorf("kill timer: %s: RLIMIT_SIGPENDING (ulimit -i) must allow this user one more signal "+
			"(it is %d): %w", call, limit.Cur, errno)
	case unix.EPERM, unix.EACCES, unix.EINVAL: // a sandbox; a kernel without this clock
		return fmt.Errorf("kill timer: %s: %w: %w", call, errors.ErrUnsupported, errno)
	default:
		return fmt.Errorf("kill timer: %s: %w", call, errno)
	}
}
