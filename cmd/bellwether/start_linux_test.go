package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// Help is what was asked for, and so on standard output.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, arguments := range [][]string{{"--help"}, {"-h"}, {"help"}, {"run", "--help"}, {"run", "-h"}} {
		t.Run(fmt.Sprint(arguments), func(t *testing.T) {
			t.Parallel()
			c := subprocess.New(t, "bellwether")
			c.Args, c.Stderr = append([]string{"bellwether"}, arguments...), nil
			c.Start()
			assert.Contains(t, c.Rest(), "usage: bellwether run {--lease NAME")
			assert.Equal(t, "exit status 0", c.End())
		})
	}
	c := subprocess.New(t, "bellwether")
	c.Args, c.Stdout = []string{"bellwether"}, nil
	c.Start()
	assert.Contains(t, c.Rest(), "usage: bellwether run {--lease NAME")
	assert.Equal(t, "exit status 64", c.End())
}

// Limits that do not let it work are named, and nothing is written.
func TestLimitsAreNamed(t *testing.T) {
	t.Parallel()
	for _, of := range []struct{ limit, name, exit string }{
		{"ulimit -i 0", "RLIMIT_SIGPENDING (ulimit -i)", "exit status 69"},
		{"ulimit -f 0", "RLIMIT_FSIZE (ulimit -f) must allow", "exit status 126"},
	} {
		t.Run(of.limit, func(t *testing.T) {
			t.Parallel()
			e := newElection(t)
			c := e.bellwether("--", "/bin/true")
			self, err := os.Executable()
			require.NoError(t, err)
			c.Args = append([]string{"bash", "-c", of.limit + `; exec "$0" "$@"`, self}, c.Args[1:]...)
			c.Path = "/bin/bash"
			c.Start()
			assert.Contains(t, c.Rest(), of.name)
			assert.Equal(t, of.exit, c.End())
			e.requireNoLease()
		})
	}
}

func (e *election) requireNoLease() {
	e.t.Helper()
	leases, err := e.client.CoordinationV1().Leases("").List(e.t.Context(), metav1.ListOptions{})
	require.NoError(e.t, err)
	require.Empty(e.t, leases.Items)
}

// By a /proc of another namespace, or without one, processes of the program would not be found.
func TestProcMustShowTheProcesses(t *testing.T) {
	t.Parallel()
	t.Run("of another namespace", func(t *testing.T) {
		t.Parallel()
		e := newElection(t)
		c := e.bellwether("--", "/bin/true").StartAsPID1()
		assert.Contains(t, c.Rest(), "/proc: must be of this process' own pid namespace, in which it is 1")
		assert.Equal(t, "exit status 69", c.End())
		e.requireNoLease()
	})
	t.Run("not mounted", func(t *testing.T) {
		t.Parallel()
		if os.Getuid() != 0 {
			t.Skip("NOT TESTED: needs root, to mount something else")
		}
		e := newElection(t)
		self, err := os.Executable()
		require.NoError(t, err)
		c := e.bellwether("--", "/bin/true")
		c.Path = "/bin/sh"
		c.Args = append([]string{"sh", "-c", `mount -t tmpfs none /proc && exec "$0" "$@"`, self}, c.Args[1:]...)
		c.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
		c.Env = append(c.Env, "BELLWETHER_SUPERVISOR=off")
		assert.Contains(t, c.Start().Rest(), "/proc: must be mounted")
		assert.Equal(t, "exit status 69", c.End())
		e.requireNoLease()
	})
}

// A program that is gone when the term begins is an error of a line.
func TestProgramIsNotFound(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	program := filepath.Join(e.dir, "program")
	subprocess.WriteProgram(t, program, "#!"+e.dir+"/no-such-shell\n")
	c := e.bellwether("--", program).Start()
	said := c.Rest()
	assert.Contains(t, said, "the program does not start")
	assert.NotContains(t, said, "stacktrace")
	assert.Equal(t, "exit status 127", c.End())
	assert.Empty(t, e.holder())
}

// A candidate is ready and alive, and a leader as its health command says.
func TestProbes(t *testing.T) {
	t.Parallel()
	at := ""
	probe := func(path string) int {
		answer, err := http.Get("http://" + at + path)
		require.NoError(t, err)
		defer func() { assert.NoError(t, answer.Body.Close()) }()
		return answer.StatusCode
	}
	e := newElection(t)
	flags := []string{"--health-address=127.0.0.1:0", "--health-command", "test ! -e '" + e.dir + "/ill'"}
	e.lead()
	c := e.start("echo works", flags...)
	at = probed(t, c)
	await(t, c, `"following"`)
	assert.Equal(t, 200, probe("/readyz"))
	assert.Equal(t, 200, probe("/healthz"))
	c.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 0", c.End())
	require.NoError(t, e.client.CoordinationV1().Leases("default").Delete(t.Context(), "l", metav1.DeleteOptions{}))

	c = e.start("echo works; exec sleep 100", flags...)
	at = probed(t, c)
	await(t, c, "works")
	assert.Equal(t, 200, probe("/readyz"))
	require.NoError(t, os.WriteFile(filepath.Join(e.dir, "ill"), nil, 0o600))
	eventually(t, func() bool { return probe("/readyz") == 503 }, "the program is not ready")
	assert.Equal(t, 200, probe("/healthz"), "its Lease will be lost")
	require.NoError(t, os.Remove(filepath.Join(e.dir, "ill")))
	eventually(t, func() bool { return probe("/readyz") == 200 }, "it is again")
	c.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 143", c.End())
}

func TestProbesNeedTheirAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	e := newElection(t)
	c := e.start("true", "--health-address", listener.Addr().String())
	assert.Contains(t, c.Rest(), "--health-address: listen tcp")
	assert.Equal(t, "exit status 69", c.End())
	e.requireNoLease()
}

// probed returns the address of a bellwether's probes.
func probed(t *testing.T, c *subprocess.Child) (address string) {
	t.Helper()
	var line struct{ Address string }
	require.NoError(t, json.Unmarshal([]byte(lastLine(await(t, c, "answering probes"))), &line))
	return line.Address
}
