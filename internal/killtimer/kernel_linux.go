package killtimer

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sigevent is struct sigevent of asm-generic/siginfo.h, 64 bytes whatever the size of its first field.
type sigevent struct {
	value  uintptr
	signo  int32
	notify int32 // 0 is SIGEV_SIGNAL: for the process, not for a thread that may have ended
	_      [64 - 2*4 - unsafe.Sizeof(uintptr(0))]byte
}

func create() (id int32, err error) {
	if os.Getpid() == 1 {
		return 0, ErrPID1
	}
	event := sigevent{signo: int32(unix.SIGKILL)}
	_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_BOOTTIME,
		uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	return id, failure("timer_create", errno)
}

// settime disarms the timer if d is zero. On 32-bit systems it is the old call with 32 bits of seconds, which are plenty
// since boot, and which kernels built without it refuse with ENOSYS.
func settime(id int32, d time.Duration, absolute bool) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))} // no interval: once
	if spec.Value.Nano() != int64(d) {
		return fmt.Errorf("killtimer: %v does not fit in this system's timers", d)
	}
	var flags uintptr
	if absolute {
		flags = unix.TIMER_ABSTIME
	}
	_, _, errno := unix.Syscall6(unix.SYS_TIMER_SETTIME, uintptr(id), flags, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	return failure("timer_settime", errno)
}

func remove(id int32) error {
	_, _, errno := unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	return failure("timer_delete", errno)
}

// failure is nil for 0. ENOSYS is errors.ErrUnsupported by itself.
func failure(call string, errno unix.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.EPERM, unix.EACCES, unix.EINVAL: // a sandbox; a kernel without this clock
		return fmt.Errorf("killtimer: %s: %w: %w", call, errors.ErrUnsupported, errno)
	default:
		return fmt.Errorf("killtimer: %s: %w", call, errno)
	}
}
