package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

const (
	soon = 100 * time.Millisecond
	long = 30 * time.Second // what waits that long was not killed

	// withinVariable is the environment variable with how long the steps before the end of a timer may take.
	withinVariable = "BELLWETHER_TEST_WITHIN"

	suspended = 10 * 365 * 24 * time.Hour
)

var killTimerPrograms = map[string]func(){
	"spins": func() {
		must(timer().Set(soon))
		for range 2 * runtime.NumCPU() {
			go spin()
		}
		spin()
	},
	"stops": func() {
		must(timer().Set(within()))
		must(unix.Kill(os.Getpid(), unix.SIGSTOP))
		wait(long)
	},
	"absolute": func() {
		must(timer().SetAt(process.SinceBoot() + soon))
		wait(long)
	},
	"enters a time namespace": func() { // with a machine that has been suspended for ten years
		err := unix.Unshare(unix.CLONE_NEWTIME)
		if err == nil {
			err = os.WriteFile("/proc/self/timens_offsets", fmt.Appendf(nil, "boottime %d 0", suspended/time.Second), 0)
		}
		fmt.Println(err)
		fmt.Println(command("after being suspended").Run())
	},
	"after being suspended": func() {
		now := process.SinceBoot()
		if now < suspended {
			panic("the clock stood still")
		}
		must(timer().SetAt(now + soon))
		wait(long)
	},
	"of a thread that ended": func() {
		created := make(chan *process.KillTimer)
		go func() {
			runtime.LockOSThread() // without unlocking: the thread ends with the goroutine
			created <- timer()
			created <- nil
			fmt.Println(unix.Gettid())
		}()
		t := <-created
		<-created
		bufio.NewScanner(os.Stdin).Scan() // until the test has seen that the thread is gone
		must(t.Set(soon))
		wait(long)
	},
	"beside one closed twice": func() {
		a, b := timer(), timer()
		must(b.Set(soon))
		must(a.Close())
		must(timer().Set(long)) // may get the id of a
		must(a.Close())
		must(a.Stop())
		wait(long)
	},
	"set to zero":                func() { must(timer().Set(0)); wait(long) },
	"set to the past":            func() { must(timer().Set(-time.Hour)); wait(long) },
	"set to a point passed":      func() { must(timer().SetAt(process.SinceBoot() - time.Hour)); wait(long) },
	"set to a point before boot": func() { must(timer().SetAt(-time.Hour)); wait(long) },
	"re-armed": func() {
		t := timer()
		must(t.Set(within()))
		must(t.Set(time.Hour))
		fmt.Println("in time")
		wait(within() + soon)
	},
	"re-armed to be earlier": func() {
		t := timer()
		must(t.Set(time.Hour))
		must(t.Set(soon))
		wait(long)
	},
	"disarmed": func() {
		stopped, closed := timer(), timer()
		must(stopped.Set(within()))
		must(closed.Set(within()))
		must(stopped.Stop())
		must(closed.Close())
		fmt.Println("in time")
		wait(within() + soon)
	},
	"exec": func() {
		must(timer().Set(within()))
		must(os.Setenv("BELLWETHER_TEST_PROGRAM", "executed"))
		must(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	},
	"executed": func() {
		fmt.Println("in time")
		wait(within() + soon)
	},
	"fork": func() {
		c := command("forked")
		must(timer().Set(within()))
		must(c.Start())
		wait(long)
	},
	"forked": func() {
		fmt.Println(os.Getpid())
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			fmt.Println("alive:", in.Text())
		}
	},
	"new": func() {
		_, err := process.NewKillTimer()
		fmt.Println(err)
		fmt.Println("ErrPID1:", errors.Is(err, process.ErrPID1))
	},
	"may not create": func() { deny(unix.EPERM, unix.SYS_TIMER_CREATE) },
	"cannot create":  func() { deny(unix.ENOSYS, unix.SYS_TIMER_CREATE) },
	"may not set":    func() { deny(unix.EPERM, unix.SYS_TIMER_SETTIME) },
	"knows no clock": func() { deny(unix.EINVAL, unix.SYS_TIMER_CREATE) },
	"no signals left": func() {
		must(unix.Setrlimit(unix.RLIMIT_SIGPENDING, &unix.Rlimit{}))
		_, err := process.NewKillTimer()
		fmt.Printf("unsupported: %t: %v\n", errors.Is(err, errors.ErrUnsupported), err)
	},
}

func timer() *process.KillTimer {
	t, err := process.NewKillTimer()
	must(err)
	return t
}

func command(program string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "BELLWETHER_TEST_PROGRAM="+program)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	return c
}

func spin() {
	for n := 0; ; n++ {
		_ = n
	}
}

func within() time.Duration {
	d, err := time.ParseDuration(os.Getenv(withinVariable))
	must(err)
	return d
}

// quick starts a program that sets a timer, and returns its first line, with which it is over with the steps
// that the timer must not end before. It returns false if it was killed before.
func quick(t *testing.T, program string, within time.Duration) (c *subprocess.Child, line string, ok bool) {
	t.Helper()
	c = subprocess.New(t, program)
	c.Env = append(c.Env, withinVariable+"="+within.String())
	c.Start()
	line, ok = c.LineOrEnd()
	if !ok {
		require.Equal(t, "signal: killed", c.End())
	}
	return c, line, ok
}

func wait(d time.Duration) { <-time.After(d) }

// deny makes system calls fail as in a sandbox, and prints the error of NewKillTimer.
func deny(errno unix.Errno, call uint32) {
	runtime.LockOSThread() // both calls are about the thread that makes them
	must(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if e != 0 {
		panic(e)
	}
	_, err := process.NewKillTimer()
	fmt.Printf("unsupported: %t: %v\n", errors.Is(err, errors.ErrUnsupported), err)
}

func TestKillTimerKillsTheProcess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, program string
		notBefore     time.Duration
	}{
		{"while all its threads spin", "spins", soon},
		{"at a point in time", "absolute", soon},
		{"at the earlier time after re-arming", "re-armed to be earlier", soon},
		{"after another timer was closed twice", "beside one closed twice", soon},
		{"at once if set to zero", "set to zero", 0},
		{"at once if set to the past", "set to the past", 0},
		{"at once if set to a point that has passed", "set to a point passed", 0},
		{"at once if set to a point before boot", "set to a point before boot", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			begin := process.SinceBoot()
			assert.Equal(t, "signal: killed", subprocess.New(t, test.program).Start().End())
			assert.GreaterOrEqual(t, process.SinceBoot()-begin, test.notBefore)
		})
	}
}

// cldStopped is the code of a child that a signal has stopped.
const cldStopped = 5

func TestKillTimerKillsAStoppedProcess(t *testing.T) {
	t.Parallel()
	subprocess.InTime(t, soon, func(within time.Duration) bool {
		c := subprocess.New(t, "stops")
		c.Env = append(c.Env, withinVariable+"="+within.String())
		c.Start()
		var info unix.Siginfo
		require.NoError(t, unix.Waitid(unix.P_PID, c.Process.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil))
		stopped := info.Code == cldStopped
		assert.Equal(t, "signal: killed", c.End(), "without SIGCONT")
		return stopped
	})
}

func TestKillTimerCountsWhileTheMachineIsSuspended(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "enters a time namespace").StartPrivileged()
	if err := c.Line(); err != "<nil>" {
		t.Skip("NOT TESTED: this system allows no time namespaces: ", err)
	}
	assert.Equal(t, "signal: killed", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestKillTimerOutlivesItsThread(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "of a thread that ended").Start()
	thread := fmt.Sprintf("/proc/%d/task/%s", c.Process.Pid, c.Line())
	assert.NotContains(t, thread, fmt.Sprintf("%d/task/%[1]d", c.Process.Pid), "the main thread would not end")
	require.Eventually(t, func() bool {
		_, err := os.Stat(thread)
		return errors.Is(err, os.ErrNotExist)
	}, time.Minute, 10*time.Millisecond)
	c.Tell("")
	assert.Equal(t, "signal: killed", c.End())
}

func TestKillTimerDoesNotKillTheProcess(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, program string }{
		{"while it is re-armed in time", "re-armed"},
		{"after Stop and Close", "disarmed"},
		{"after it has executed another program, as documented", "exec"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			subprocess.InTime(t, soon, func(within time.Duration) bool {
				c, _, ok := quick(t, test.program, within)
				if ok {
					assert.Equal(t, "exit status 0", c.End())
				}
				return ok
			})
		})
	}
}

func TestKillTimerDoesNotKillChildren(t *testing.T) {
	t.Parallel()
	var c *subprocess.Child
	var line string
	subprocess.InTime(t, soon, func(within time.Duration) (ok bool) {
		c, line, ok = quick(t, "fork", within)
		return ok
	})
	child, err := strconv.Atoi(line)
	require.NoError(t, err)
	require.Equal(t, "signal: killed", c.End())
	c.Tell("after its parent")
	assert.Equal(t, "alive: after its parent", c.Line())
	c.Hush()
	var status unix.WaitStatus
	_, err = unix.Wait4(child, &status, 0, nil) // ours since its parent ended
	require.NoError(t, err)
	assert.Equal(t, 0, status.ExitStatus())
}

func TestKillTimerIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, program, want string }{
		{"if timers may not be created", "may not create", "unsupported: true: kill timer: timer_create: "},
		{"if timers cannot be created", "cannot create", "unsupported: true: kill timer: timer_create: "},
		{"if the clock is not known", "knows no clock", "unsupported: true: kill timer: timer_create: "},
		{"if timers may be created but not set", "may not set", "unsupported: true: kill timer: timer_settime: "},
		{
			"for now, if the user has too many signals pending", "no signals left",
			"unsupported: false: kill timer: timer_create: RLIMIT_SIGPENDING (ulimit -i) must allow this user one " +
				"more signal (it is 0): ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := subprocess.New(t, test.program).Start()
			assert.Contains(t, c.Line(), test.want)
			assert.Equal(t, "exit status 0", c.End())
		})
	}
}

func TestKillTimerIsRefusedToPID1(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "new").StartAsPID1()
	message := c.Line()
	for _, part := range []string{"PID 1", "shareProcessNamespace: true", "tini", "leaderelection.ReexecIfPID1"} {
		assert.Contains(t, message, part)
	}
	assert.Equal(t, "ErrPID1: true", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestKillTimerIsNotRefusedToOthers(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "new").Start()
	assert.Equal(t, "<nil>", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestClosedKillTimerCannotBeSet(t *testing.T) {
	t.Parallel()
	closed, err := process.NewKillTimer()
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, timer := range map[string]*process.KillTimer{"closed": closed, "zero": {}} {
		assert.ErrorContains(t, timer.Set(time.Hour), "closed", name)
		assert.ErrorContains(t, timer.SetAt(time.Hour), "closed", name)
		assert.NoError(t, timer.Stop(), name)
		assert.NoError(t, timer.Close(), name)
	}
}

func TestKillTimerCanBeUsedConcurrently(t *testing.T) {
	t.Parallel()
	timer, err := process.NewKillTimer()
	require.NoError(t, err)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 100 {
				assert.NoError(t, timer.Set(time.Hour+time.Duration(i)))
				assert.NoError(t, timer.Stop())
			}
		})
	}
	group.Wait()
	for range 8 {
		group.Go(func() {
			_ = timer.Set(time.Hour) // fails or not
			assert.NoError(t, timer.Close())
		})
	}
	group.Wait()
}

func ExampleNewKillTimer() {
	timer, err := process.NewKillTimer()
	if err != nil {
		fmt.Println("no kernel deadline:", err)
		return
	}
	deadline := process.SinceBoot() + time.Hour
	if err := timer.SetAt(deadline); err != nil {
		fmt.Println(err)
	}
	if err := timer.Close(); err != nil { // in time
		fmt.Println(err)
	}
	// Output:
}

func BenchmarkKillTimerSet(b *testing.B) {
	timer, err := process.NewKillTimer()
	require.NoError(b, err)
	for b.Loop() {
		if err := timer.Set(time.Hour); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, timer.Close())
}
