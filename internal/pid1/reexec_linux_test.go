package pid1_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/killtimer"
	"github.com/bellwether-k8s/bellwether/internal/pid1"
	"github.com/bellwether-k8s/bellwether/internal/testchild"
)

var programs = map[string]func(){
	"exits": func() {
		pid1.Reexec()
		fmt.Println(os.Getpid() == 1, os.Args[1:], os.Getenv("FLAVOUR"))
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		fmt.Println(in.Text())
		fmt.Fprintln(os.Stderr, "on stderr")
		os.Exit(75)
	},
	"stops with a deadline": func() {
		pid1.Reexec()
		timer, err := killtimer.New()
		must(err)
		must(timer.Set(time.Second))
		must(unix.Kill(os.Getpid(), unix.SIGSTOP))
		<-time.After(time.Minute)
	},
	"is terminated": func() {
		pid1.Reexec()
		must(unix.Kill(os.Getpid(), unix.SIGTERM))
		<-time.After(time.Minute)
	},
	"tells its signals": func() {
		pid1.Reexec()
		signals := make(chan os.Signal, 64)
		signal.Notify(signals)
		signal.Reset(unix.SIGURG) // of the scheduler
		fmt.Println("ready")
		for s := range signals {
			fmt.Println(int(s.(syscall.Signal)))
			if s == unix.SIGTERM {
				os.Exit(75)
			}
		}
	},
	"ignores hang-ups": func() {
		if os.Getpid() == 1 {
			signal.Ignore(unix.SIGHUP)
		}
		pid1.Reexec()
		fmt.Println("ignored:", signal.Ignored(unix.SIGHUP))
	},
	"leaves orphans": func() {
		pid1.Reexec()
		var orphans []int
		for range 10 {
			out, err := program("parent").Output()
			must(err)
			var pid int
			_, err = fmt.Sscan(string(out), &pid)
			must(err)
			orphans = append(orphans, pid)
		}
		for _, pid := range orphans {
			for unix.Kill(pid, 0) == nil { // zombies can be sent signals
				<-time.After(time.Millisecond)
			}
		}
		fmt.Println("gone:", len(orphans))
	},
	"parent": func() { // of a child that outlives it
		c := program("orphan")
		in, out, err := os.Pipe() // ends with us
		must(err)
		c.Stdin = in
		must(c.Start())
		fmt.Println(c.Process.Pid)
		_ = out
	},
	"orphan": func() { bufio.NewScanner(os.Stdin).Scan() },
	"waits": func() {
		pid1.Reexec()
		fmt.Println("ready")
		<-time.After(time.Minute)
	},
	"cannot start": func() {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}))
		pid1.Reexec()
		fmt.Println("not reached")
	},
	"counts interrupts": func() {
		pid1.Reexec()
		signals := make(chan os.Signal, 64)
		signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
		fmt.Println("ready")
		interrupts := 0
		for s := range signals {
			if s == unix.SIGTERM {
				break
			}
			interrupts++
			fmt.Println("interrupted")
		}
		in := bufio.NewScanner(os.Stdin) // or we are not in the foreground and would be stopped here
		in.Scan()
		fmt.Println("interrupts:", interrupts, in.Text())
	},
}

func TestMain(m *testing.M) { testchild.Main(m, programs) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func program(name string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "BELLWETHER_TEST_PROGRAM="+name)
	return c
}

func TestRunsTheSameProgramAsAChild(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "exits")
	c.Args = append(c.Args, "first argument", "second")
	c.Env = append(c.Env, "FLAVOUR=vanilla")
	c.StartAsPID1()
	assert.Equal(t, "false [first argument second] vanilla", c.Line())
	c.Tell("from stdin")
	assert.Equal(t, "from stdin", c.Line())
	assert.Equal(t, "on stderr", c.Line())
	assert.Equal(t, "exit status 75", c.End())
}

func TestDoesNothingUnlessPID1(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "stops with a deadline").Start()
	assert.Equal(t, "signal: killed", c.End(), "not by way of a child: exit status 137")
}

func TestEndsLikeItsChild(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, program, want string }{
		{"killed by its kernel deadline while stopped", "stops with a deadline", "exit status 137"},
		{"terminated", "is terminated", "exit status 143"},
		{"successful", "ignores hang-ups", "exit status 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, testchild.New(t, test.program).StartAsPID1().End())
		})
	}
}

func TestForwardsSignals(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "tells its signals").StartAsPID1()
	require.Equal(t, "ready", c.Line())
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT,
		unix.SIGTSTP, unix.SIGWINCH, 35, 64, // the last two are real-time signals
	} {
		if signal.Ignored(s) { // here and so in the child, as under nohup
			continue
		}
		c.Send(s)
		assert.Equal(t, fmt.Sprint(int(s)), c.Line())
	}
	c.Send(unix.SIGTERM)
	assert.Equal(t, "15", c.Line())
	assert.Equal(t, "exit status 75", c.End())
}

func TestLeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "ignores hang-ups").StartAsPID1()
	assert.Equal(t, "ignored: true", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestLeavesNoZombies(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "leaves orphans").StartAsPID1()
	assert.Equal(t, "gone: 10", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestChildDoesNotOutliveIt(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "waits").StartAsPID1()
	require.Equal(t, "ready", c.Line())
	c.Send(unix.SIGKILL)
	assert.Equal(t, "signal: killed", c.End())
	assert.Empty(t, c.Rest(), "nobody holds its stdout any more")
}

func TestSaysThatItCannotStartTheChild(t *testing.T) {
	t.Parallel()
	c := testchild.New(t, "cannot start").StartAsPID1()
	assert.Equal(t, "leaderelection: PID 1 cannot start its program as a child: "+
		"fork/exec /proc/self/exe: too many open files", c.Line())
	assert.Equal(t, "exit status 126", c.End())
	assert.Empty(t, c.Rest())
}

func TestKeysOfATerminalAreSentOnce(t *testing.T) {
	t.Parallel()
	keyboard, terminal := openTerminal(t)
	c := testchild.New(t, "counts interrupts")
	c.Stdin = terminal
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c.StartAsPID1()
	require.Equal(t, "ready", c.Line())
	_, err := keyboard.WriteString("\x03") // Ctrl-C
	require.NoError(t, err)
	require.Equal(t, "interrupted", c.Line())
	c.Send(unix.SIGTERM) // would come after a second, forwarded interrupt
	_, err = keyboard.WriteString("typed\n")
	require.NoError(t, err)
	assert.Equal(t, "interrupts: 1 typed", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

// openTerminal returns the two ends of a pseudo-terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("NOT TESTED: this system has no pseudo-terminals: ", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	fd := int(keyboard.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}
