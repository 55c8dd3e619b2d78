package process_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/proof"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

var pid1Programs = map[string]func(){
	"exits": func() {
		process.ReexecIfPID1()
		fmt.Println(os.Getpid() == 1, os.Args[1:], os.Getenv("FLAVOUR"))
		in := bufio.NewScanner(os.Stdin)
		in.Scan()
		fmt.Println(in.Text())
		fmt.Fprintln(os.Stderr, "on stderr")
		os.Exit(75)
	},
	"stops with a deadline": func() {
		process.ReexecIfPID1()
		timer, err := process.NewKillTimer()
		must(err)
		must(timer.Set(soon))
		must(unix.Kill(os.Getpid(), unix.SIGSTOP))
		wait(long)
	},
	"is terminated": func() {
		process.ReexecIfPID1()
		must(unix.Kill(os.Getpid(), unix.SIGTERM))
		<-time.After(time.Minute)
	},
	"prints its signals": func() {
		process.ReexecIfPID1()
		printSignals()
	},
	"prints its signals, supervised": func() {
		supervise()
		printSignals()
	},
	"ignores hang-ups": func() {
		if os.Getpid() == 1 {
			signal.Ignore(unix.SIGHUP)
		}
		process.ReexecIfPID1()
		fmt.Println("ignored:", signal.Ignored(unix.SIGHUP))
	},
	"leaves orphans": func() {
		process.ReexecIfPID1()
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
	"waits, supervised": func() {
		supervise()
		fmt.Println("ready")
		<-time.After(time.Minute)
	},
	"waits": func() {
		process.ReexecIfPID1()
		fmt.Println("ready")
		<-time.After(time.Minute)
	},
	"looks at /proc": func() { fmt.Println(process.CheckProc()) },
	"cannot start": func() {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}))
		process.ReexecIfPID1()
		fmt.Println("not reached")
	},
	"counts interrupts": func() {
		process.ReexecIfPID1()
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

// supervise runs the program as a child, also if this is not PID 1.
func supervise() {
	const variable = "BELLWETHER_TEST_SUPERVISED"
	if os.Getenv(variable) == "" {
		must(os.Setenv(variable, "1"))
		os.Exit(process.Supervise(process.Supervision{}))
	}
}

func printSignals() {
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
}

func program(name string) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "BELLWETHER_TEST_PROGRAM="+name)
	return c
}

func TestPID1RunsTheSameProgramAsAChild(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "exits")
	c.Args = append(c.Args, "first argument", "second")
	c.Env = append(c.Env, "FLAVOUR=vanilla")
	c.StartAsPID1()
	assert.Equal(t, "false [first argument second] vanilla", c.Line())
	c.Tell("from stdin")
	assert.Equal(t, "from stdin", c.Line())
	assert.Equal(t, "on stderr", c.Line())
	assert.Equal(t, "exit status 75", c.End())
}

func TestReexecDoesNothingUnlessPID1(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "stops with a deadline").Start()
	assert.Equal(t, "signal: killed", c.End(), "a child would make this exit status 137")
}

func TestPID1EndsLikeItsChild(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, program, want string }{
		{"killed by its kernel deadline while stopped", "stops with a deadline", "exit status 137"},
		{"terminated", "is terminated", "exit status 143"},
		{"successful", "ignores hang-ups", "exit status 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, subprocess.New(t, test.program).StartAsPID1().End())
		})
	}
}

func TestPID1ForwardsSignals(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "prints its signals").StartAsPID1()
	require.Equal(t, "ready", c.Line())
	for _, s := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGCONT,
		unix.SIGTSTP, unix.SIGWINCH, 35, 64, // the last two are real-time signals
	} {
		c.Send(s)
		assert.Equal(t, fmt.Sprint(int(s)), c.Line())
	}
	c.Send(unix.SIGTERM)
	assert.Equal(t, "15", c.Line())
	assert.Equal(t, "exit status 75", c.End())
}

// A runtime stops a program by the signal that its image names, and so do dumb-init, tini -g, timeout and
// bellwether run, which send it to the process group of the program.
func TestSignalReachesASupervisedProgramOnce(t *testing.T) {
	t.Parallel()
	const rtmin3 = syscall.Signal(37) // as systemd in a container expects
	stops := []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPWR, unix.SIGWINCH,
		unix.SIGCONT, rtmin3, unix.SIGTERM,
	}
	for name, attributes := range map[string]syscall.SysProcAttr{
		"": {Setpgid: true}, ", in the foreground of a terminal": {Setsid: true, Setctty: true},
	} {
		for to, sign := range map[string]int{"to the supervisor": 1, "to its process group": -1} {
			t.Run(to+name, func(t *testing.T) {
				t.Parallel()
				c := subprocess.New(t, "prints its signals, supervised")
				c.SysProcAttr = &attributes
				if attributes.Setctty {
					_, c.Stdin = subprocess.OpenTerminal(t)
				}
				c.Start()
				require.Equal(t, "ready", c.Line())
				for _, s := range stops {
					require.NoError(t, unix.Kill(sign*c.Process.Pid, s))
					require.Equal(t, fmt.Sprint(int(s)), c.Line(), "a second one would come before the next")
				}
				assert.Equal(t, "exit status 75", c.End())
			})
		}
	}
}

// timeout sends a stop to the process, and at once to its process group.
func TestStopThatIsSentTwiceIsOne(t *testing.T) {
	t.Parallel()
	subprocess.InTime(t, 50*time.Millisecond, func(time.Duration) bool {
		c := subprocess.New(t, "prints its signals, supervised")
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		c.Start()
		require.Equal(t, "ready", c.Line())
		c.Send(unix.SIGINT)
		require.Equal(t, "2", c.Line(), "or the kernel could make one of the two")
		require.NoError(t, unix.Kill(-c.Process.Pid, unix.SIGINT))
		c.Send(unix.SIGUSR1)
		next := c.Line()
		c.Send(unix.SIGTERM)
		assert.Equal(t, "exit status 75", c.End())
		return next+"\n"+c.Rest() == "10\n15\n" // or the supervisor came too late to the second one
	})
}

func TestShellStopsAndContinuesSupervisorAndChild(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "waits, supervised")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Start()
	require.Equal(t, "ready", c.Line())
	children := process.Children(c.Process.Pid)
	require.Len(t, children, 1)
	requireStopped := func(want bool) {
		t.Helper()
		for _, pid := range []int{c.Process.Pid, children[0]} {
			for stopped(t, pid) != want {
				<-time.After(time.Millisecond)
			}
		}
	}
	for range 2 {
		require.NoError(t, unix.Kill(-c.Process.Pid, unix.SIGTSTP)) // as Ctrl-Z does
		requireStopped(true)
		require.NoError(t, unix.Kill(-c.Process.Pid, unix.SIGCONT)) // as fg and bg do
		requireStopped(false)
	}
	c.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 143", c.End())
}

// stopped fails the test if the process has ended.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	return bytes.Contains(stat, []byte(") T "))
}

func TestPID1LeavesIgnoredSignalsIgnored(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "ignores hang-ups").StartAsPID1()
	assert.Equal(t, "ignored: true", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestPID1LeavesNoZombies(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "leaves orphans").StartAsPID1()
	assert.Equal(t, "gone: 10", c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestProcIsOfTheNamespace(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "looks at /proc").Start()
	assert.Equal(t, "<nil>", c.Line())
	assert.Equal(t, "exit status 0", c.End())
	c = subprocess.New(t, "looks at /proc").StartAsPID1() // and the /proc of before
	assert.Equal(t, fmt.Sprintf("/proc: must be of this process' own pid namespace, in which it is 1 (it is %d "+
		"there): "+
		"mount it again, as unshare --mount-proc does", c.Process.Pid), c.Line())
	assert.Equal(t, "exit status 0", c.End())
}

func TestChildDoesNotOutlivePID1(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "waits").StartAsPID1()
	require.Equal(t, "ready", c.Line())
	c.Send(unix.SIGKILL)
	assert.Equal(t, "signal: killed", c.End())
	assert.Empty(t, c.Rest(), "its stdout is closed")
}

func TestPID1ReportsThatItCannotStartTheChild(t *testing.T) {
	t.Parallel()
	c := subprocess.New(t, "cannot start").StartAsPID1()
	assert.Equal(t, "bellwether: cannot start the program as a child: "+
		"fork/exec /proc/self/exe: too many open files", c.Line())
	assert.Equal(t, "exit status 126", c.End())
	assert.Empty(t, c.Rest())
}

func TestTerminalKeysAreSentOnce(t *testing.T) {
	t.Parallel()
	keyboard, terminal := subprocess.OpenTerminal(t)
	c := subprocess.New(t, "counts interrupts")
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

// The loader of such a program changes pages of it that are read-only afterwards.
func TestProgramThatMayBeAnywhereIsSupervised(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exe", "pie"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			if mode == "pie" {
				proof.Build(t)
			}
			file := filepath.Join(t.TempDir(), "supervised")
			build := exec.CommandContext(t.Context(), "go", "build", "-buildmode="+mode, "-o", file,
				"./testdata/supervised")
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			out, err := build.CombinedOutput()
			require.NoError(t, err, "%s", out)
			out, err = exec.CommandContext(t.Context(), file).CombinedOutput()
			assert.EqualError(t, err, "exit status 3")
			assert.Equal(t, "ended: 3\n", string(out))
		})
	}
}
