package subprocess

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Child is a process that runs one of the programs given to [Main].
type Child struct {
	*exec.Cmd // may be changed until it is started

	t      *testing.T
	input  *os.File
	output *bufio.Reader
	file   *os.File // behind output
	theirs []*os.File
	cancel context.CancelFunc // kills it
}

// New returns a Child that is not started yet.
func New(t *testing.T, program string) *Child {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &Child{Cmd: exec.CommandContext(ctx, "/proc/self/exe"), t: t, cancel: cancel}
	c.Env = append(os.Environ(), programEnv+"="+program,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or the race detector delays every end by a second
	stdin, input := c.pipe()
	output, stdout := c.pipe()
	c.Stdin, c.Stdout, c.Stderr = stdin, stdout, stdout
	c.input, c.file, c.output = input, output, bufio.NewReader(output)
	c.theirs = []*os.File{stdin, stdout}
	return c
}

func (c *Child) pipe() (read, write *os.File) {
	c.t.Helper()
	read, write, err := os.Pipe()
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	return read, write
}

// Start starts it. It is killed at the end of the test at the latest.
func (c *Child) Start() *Child {
	c.t.Helper()
	require.NoError(c.t, c.Cmd.Start())
	c.started()
	return c
}

// StartAsPID1 starts it as PID 1 of a pid namespace of its own.
func (c *Child) StartAsPID1() *Child {
	c.t.Helper()
	StartAsPID1(c.t, c.Cmd)
	c.started()
	return c
}

// StartPrivileged starts it with the right to enter new namespaces.
func (c *Child) StartPrivileged() *Child {
	c.t.Helper()
	startIn(c.t, c.Cmd, 0)
	c.started()
	return c
}

func (c *Child) started() {
	c.t.Helper()
	overdue := time.AfterFunc(limit, c.cancel)
	c.t.Cleanup(func() { overdue.Stop() })
	// Another process may have inherited the other end of its output.
	require.NoError(c.t, c.file.SetReadDeadline(time.Now().Add(limit)))
	for _, f := range c.theirs {
		_ = f.Close()
	}
	c.t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
}

// Line waits for the next line of its output.
func (c *Child) Line() string {
	c.t.Helper()
	line, err := c.output.ReadString('\n')
	require.NoError(c.t, err, "output so far: %q", line)
	return strings.TrimSuffix(line, "\n")
}

// LineOrEnd waits for the next line of its output. It returns false if there is none, because all writers of
// its output have ended.
func (c *Child) LineOrEnd() (line string, ok bool) {
	c.t.Helper()
	line, err := c.output.ReadString('\n')
	if err == io.EOF && line == "" {
		return "", false
	}
	require.NoError(c.t, err, "output so far: %q", line)
	return strings.TrimSuffix(line, "\n"), true
}

// Rest waits until all writers of its output have ended, and returns the unread output.
func (c *Child) Rest() string {
	c.t.Helper()
	var rest strings.Builder
	_, err := c.output.WriteTo(&rest)
	require.NoError(c.t, err)
	return rest.String()
}

// Tell sends it a line, unless it has ended.
func (c *Child) Tell(line string) {
	c.t.Helper()
	if _, err := c.input.WriteString(line + "\n"); !errors.Is(err, syscall.EPIPE) {
		require.NoError(c.t, err)
	}
}

// Hush ends its input.
func (c *Child) Hush() { _ = c.input.Close() }

// Send sends it a signal.
func (c *Child) Send(s os.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.Process.Signal(s))
}

// End waits for its end and says what that was, such as "exit status 75" or "signal: killed".
func (c *Child) End() string {
	_ = c.Wait()
	return c.ProcessState.String()
}
