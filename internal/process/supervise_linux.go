package process

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supervision is what [Supervise] does besides running a child.
type Supervision struct {
	// File is open in the child as descriptor [SupervisedFile]. It may be nil.
	File *os.File
	// Variable is the environment variable with the number of this process in the child if there is
	// a File.
	Variable string
	// Ended is called when the child has ended, with the exit code of Supervise, before that
	// returns. Descendants of the child may still run. Optional.
	Ended func(code int)
}

// SupervisedFile is the descriptor of [Supervision].File in the child.
const SupervisedFile = 3

// lifeline is a descriptor in the child, besides that of a File: the end of a pipe whose other end
// only the supervisor has.
const lifeline = SupervisedFile + 1

// ExitCannotStart is the shells' exit code for a program that cannot be executed.
const ExitCannotStart = 126

// ReexecIfPID1 returns at once unless this process is PID 1. As PID 1 it runs the same program as a
// child, does what an init must, and exits as the child does.
func ReexecIfPID1() {
	if os.Getpid() == 1 {
		os.Exit(Supervise(Supervision{}))
	}
}

// Supervise runs the same program as a child, forwards signals to it, and waits for its end. It
// returns the exit code for this process. The calling goroutine must be that of main, and must not
// return before the process exits.
//
// The child does not outlive this process. The kernel kills all processes of a namespace when its
// PID 1 ends. Elsewhere it kills the child when the thread that has started it ends, so that thread
// belongs to this goroutine from now on. Orphans of the child become children of this process.
func Supervise(v Supervision) (code int) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return cannotStart(err)
	}
	s := newSignals()
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	if v.File != nil {
		theirs, ours, err := os.Pipe()
		if err != nil {
			return cannotStart(err)
		}
		defer runtime.KeepAlive(ours) // open until this process ends
		defer func() { _ = theirs.Close() }()
		files = append(files, v.File, theirs)
		if err := os.Setenv(v.Variable, strconv.Itoa(os.Getpid())); err != nil {
			return cannotStart(err)
		}
	}
	// In a group of its own, it gets only once what is sent to the group of this process.
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Files: files, Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return cannotStart(err)
	}
	if s.init && ownsTerminal() {
		moveToForeground(child)
	}
	go s.forward(child)
	shrink()
	code = reap(child.Pid)
	if v.Ended != nil {
		v.Ended(code)
	}
	return code
}

// EndWithSupervisor makes the kernel kill this process, a child with a [Supervision].File, when its supervisor
// has ended, even if this process is stopped. The parent-death signal of Supervise does not suffice: the
// kernel forgets it when a program with file capabilities or a setuid one is executed, and when a process
// changes its user. In a user namespace, call this again after such a change.
func EndWithSupervisor() error {
	unix.CloseOnExec(lifeline)
	flags, err := unix.FcntlInt(lifeline, unix.F_GETFL, 0)
	for _, request := range []struct{ command, value int }{
		{unix.F_SETOWN, os.Getpid()}, {unix.F_SETSIG, int(unix.SIGKILL)}, {unix.F_SETFL, flags | unix.O_ASYNC},
	} {
		if err == nil {
			_, err = unix.FcntlInt(lifeline, request.command, request.value)
		}
	}
	if err != nil {
		return fmt.Errorf("the supervisor's end would not be noticed: fcntl: %w", err)
	}
	ended := []unix.PollFd{{Fd: lifeline}}
	if _, err := unix.Poll(ended, 0); err == nil && ended[0].Revents&unix.POLLHUP != 0 { // before
		return os.NewSyscallError("kill", unix.Kill(os.Getpid(), unix.SIGKILL))
	}
	return nil
}

func cannotStart(err error) (code int) {
	fmt.Fprintln(os.Stderr, "bellwether: cannot start the program as a child:", err)
	return ExitCannotStart
}

// EndDescendants kills the descendants that a child has left behind, and waits until all have
// ended. It returns false if one of them has not ended by until, a reading of [SinceBoot].
func EndDescendants(until time.Duration) bool {
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return true
			}
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
		if SinceBoot() >= until {
			return false
		}
		// Orphans of those become our children. A process number is not used again before we have
		// waited for it.
		for _, pid := range Children(os.Getpid()) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		<-time.After(pause)
	}
}

// CheckProc returns an error unless /proc, which [Children] and [EndDescendants] read, shows the
// processes of this process' namespace.
func CheckProc() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("/proc: must be mounted, because it shows which processes there are: %w", err)
	}
	var own, here []string // numbers of this process: in the mount's namespace, and from there down to its own
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "Pid":
			own = strings.Fields(value)
		case "NSpid": // since Linux 4.1
			here = strings.Fields(value)
		}
	}
	if here == nil {
		here = own
	}
	if len(here) != 1 || here[0] != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc: must be of this process' own pid namespace, in which it is %d (it is %s there): "+
			"mount it again, as unshare --mount-proc does", os.Getpid(), strings.Join(own, " "))
	}
	return nil
}

// Children returns the children of a process.
func Children(of int) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ") // after the name in brackets
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(of) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// signals are the signals of this process that its child gets.
type signals struct {
	received chan os.Signal
	init     bool // this is the PID 1 of a namespace
}

// newSignals must be called before the child starts, so that earlier signals wait for it.
func newSignals() *signals {
	s := &signals{make(chan os.Signal, 128), os.Getpid() == 1} // more than there are: os/signal drops what does not fit
	signal.Notify(s.received, s.forwarded()...)
	return s
}

// oneStop is how soon a second stop counts as the same one, because timeout sends it to this
// process, and then to the group.
const oneStop = 50 * time.Millisecond

// forward sends the child each signal. It fails if the child has ended; then this process ends as
// well. A shell that stops this process stops both, and continues both.
func (s *signals) forward(child *os.Process) {
	var stop os.Signal
	var forwarded time.Time
	for received := range s.received {
		switch received {
		case unix.SIGTERM, unix.SIGINT, unix.SIGQUIT:
			if received == stop && time.Since(forwarded) < oneStop {
				continue
			}
			stop, forwarded = received, time.Now()
		}
		_ = child.Signal(received)
		if received == unix.SIGTSTP && !s.init {
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
	}
}

// forwarded returns all signals except those about this process itself: its children, broken pipes,
// preempted goroutines, faults and, unless this is PID 1, its use of a terminal. SIGHUP and SIGINT
// stay ignored, here and in the child, if they were at the start. For other signals, the runtime of
// Go does not preserve that.
func (s *signals) forwarded() []os.Signal {
	var all []os.Signal
	for n := syscall.Signal(1); n <= 64; n++ {
		switch n {
		case unix.SIGCHLD, unix.SIGPIPE, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL:
			continue
		case unix.SIGTTIN, unix.SIGTTOU:
			if !s.init {
				continue
			}
		case unix.SIGTSTP:
			if !s.init && !underShell() {
				continue
			}
		}
		if !signal.Ignored(n) {
			all = append(all, n)
		}
	}
	return all
}

// underShell reports whether a shell may stop this process by the terminal's keys, and continue it.
// In the group of the session's leader nothing would continue it, because there the kernel ignores
// these keys.
func underShell() bool {
	session, err := unix.Getsid(0)
	return err == nil && session != unix.Getpgrp()
}

// reap waits for all children, so that orphans leave no zombies, until this child has ended.
// A stopped child has not ended.
func reap(child int) (code int) {
	for {
		var status unix.WaitStatus
		switch pid, err := unix.Wait4(-1, &status, 0, nil); {
		case err == unix.EINTR, err == nil && pid != child:
		case err != nil: // there is a child that was not waited for
			panic("process: wait for children: " + err.Error())
		case status.Signaled():
			return 128 + int(status.Signal()) // as shells do
		default:
			return status.ExitStatus()
		}
	}
}

// ownsTerminal reports whether this process leads the foreground group of a terminal, as with
// docker run --tty. The terminal's keys send signals to that group, so a child in it would get each
// Ctrl-C twice, once forwarded, and the second one ends many programs at once.
func ownsTerminal() bool {
	group, err := unix.IoctlGetInt(unix.Stdin, unix.TIOCGPGRP)
	return err == nil && group == 1
}

// moveToForeground makes the child's group the foreground group. The child may have been stopped
// before for using the terminal from the background.
func moveToForeground(child *os.Process) {
	if unix.IoctlSetPointerInt(unix.Stdin, unix.TIOCSPGRP, child.Pid) == nil {
		_ = child.Signal(unix.SIGCONT)
	}
}

// shrink gives back memory that this process no longer needs: what its initialization has left
// behind, and the pages of the program's file. Those that are needed again are read from the page
// cache, which the child shares.
func shrink() {
	debug.FreeOSMemory()
	const self = "/proc/self/exe"
	name, err := os.Readlink(self)
	if err != nil {
		return
	}
	file, err := elf.Open(self)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	// A loader has written to data before they became read-only (-buildmode=pie), so the file has
	// others.
	relocated := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO })
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		var start, end uintptr
		var mode string
		_, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(line), name) {
			continue
		}
		if code := mode == "r-xp"; code || mode == "r--p" && !relocated {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED) // on failure it stays larger
		}
	}
}
