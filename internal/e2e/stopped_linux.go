package e2e

import "golang.org/x/sys/unix"

// stopped says whether all threads of a child have stopped after a SIGSTOP. It does not consume the
// event (WNOWAIT), and does not see the child's end: that belongs to the goroutine that waits for
// it.
func stopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}
