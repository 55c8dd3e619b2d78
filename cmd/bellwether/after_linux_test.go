package main

import (
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// leaves is an election whose program leaves a file behind, unless a command clears it.
type leaves struct {
	*election
	file string
}

func newLeaves(t *testing.T) leaves {
	t.Helper()
	e := newElection(t)
	return leaves{e, filepath.Join(e.dir, "address")}
}

// start starts a bellwether whose program works until it gets SIGTERM, or there is a file named "end".
func (l leaves) start(flags ...string) *subprocess.Child {
	l.t.Helper()
	return l.election.start("cd "+l.dir+"; touch "+l.file+`; echo works
		until [ -e stubborn ] || [ -e end ]; do sleep 0.1; done
		if [ -e stubborn ]; then trap "" TERM; echo is stubborn; fi
		until [ -e end ]; do sleep 0.1; done`, flags...)
}

func (l leaves) write(name string) {
	l.t.Helper()
	require.NoError(l.t, os.WriteFile(filepath.Join(l.dir, name), nil, 0o600))
}

// Whatever ends the term, the host is clear when all has ended, and the Lease is not released before.
func TestAfterClearsTheHost(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		end      func(l leaves, c *subprocess.Child)
		exit     string
		released bool
	}{
		"SIGTERM":          {func(_ leaves, c *subprocess.Child) { c.Send(unix.SIGTERM) }, "exit status 143", true},
		"the program ends": {func(l leaves, _ *subprocess.Child) { l.write("end") }, "exit status 0", true},
		"bellwether is killed": {func(l leaves, c *subprocess.Child) {
			require.NoError(l.t, unix.Kill(childOf(l.t, c), unix.SIGKILL))
		}, "exit status 137", false},
		"the program is killed": {func(l leaves, c *subprocess.Child) {
			require.NoError(l.t, unix.Kill(childOf(l.t, &subprocess.Child{
				Cmd: &exec.Cmd{Process: &os.Process{Pid: childOf(l.t, c)}},
			}), unix.SIGKILL))
		}, "exit status 137", true},
		"the Lease is deleted": {func(l leaves, _ *subprocess.Child) {
			require.NoError(l.t, l.client.CoordinationV1().Leases("default").Delete(l.t.Context(), "l",
				metav1.DeleteOptions{}))
		}, "exit status 75", true},
		"the API server has gone": {func(l leaves, _ *subprocess.Child) {
			require.NoError(l.t, l.server.Close())
		}, "exit status 75", false},
		"the API server has gone, and the program is stubborn": {func(l leaves, c *subprocess.Child) {
			l.write("stubborn")
			await(l.t, c, "is stubborn")
			require.NoError(l.t, l.server.Close())
		}, "exit status 75", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeaves(t)
			c := l.start("--after", "rm -f "+l.file+"; echo cleared")
			await(t, c, "cleared")
			await(t, c, "works")
			require.FileExists(t, l.file)
			of.end(l, c)
			await(t, c, "cleared")
			rest := c.Rest()
			if of.exit != "exit status 75" { // in time for the next leader it may be killed, and then runs again
				assert.NotContains(t, rest, "cleared", "once")
			}
			assert.Equal(t, of.exit, c.End())
			assert.NoFileExists(t, l.file)
			if !strings.HasPrefix(name, "the Lease") && !strings.HasPrefix(name, "the API server") {
				assert.Equal(t, of.released, l.holder() == "")
			}
		})
	}
}

// The command runs when the program has ended, and before the Lease is released.
func TestLeaseIsReleasedAfterTheCommand(t *testing.T) {
	t.Parallel()
	l := newLeaves(t)
	c := l.start("--after", "rm -f "+l.file+"; [ ! -e "+l.dir+"/led ] || { echo clears; cat "+l.dir+"/pipe; }")
	await(t, c, "works")
	require.NoError(t, unix.Mkfifo(filepath.Join(l.dir, "pipe"), 0o600))
	l.write("led")
	c.Send(unix.SIGTERM)
	assert.Contains(t, await(t, c, "clears"), "the program has ended")
	assert.NotEmpty(t, l.holder())
	pipe, err := os.OpenFile(filepath.Join(l.dir, "pipe"), os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, pipe.Close())
	assert.Equal(t, "exit status 143", c.End())
	assert.Empty(t, l.holder())
}

// A host that was rebooted, or both processes of bellwether killed, is cleared before it contends.
func TestAfterRunsBeforeTheElection(t *testing.T) {
	t.Parallel()
	l := newLeaves(t)
	l.write("address")
	l.lead()
	c := l.start("--after", "rm -f "+l.file+"; echo cleared")
	assert.Contains(t, await(t, c, `"following"`), "cleared")
	assert.NoFileExists(t, l.file)
	c.Send(unix.SIGTERM)
	assert.NotContains(t, c.Rest(), "cleared", "it has not led")
	assert.Equal(t, "exit status 0", c.End())
}

// What could not be cleared is still there: no other host may have it before the Lease expires.
func TestLeaseIsNotReleasedIfTheCommandFails(t *testing.T) {
	t.Parallel()
	l := newLeaves(t)
	c := l.start("--after", "echo runs; [ ! -e "+l.file+" ]")
	await(t, c, "works")
	c.Send(unix.SIGTERM)
	said := c.Rest()
	assert.Contains(t, said, "the Lease is not released")
	assert.Contains(t, said, "still there")
	assert.Equal(t, 2, strings.Count(said, "runs\n"), "once more by the parent: %s", said)
	assert.Equal(t, "exit status 75", c.End())
	assert.NotEmpty(t, l.holder())
}

func TestNothingIsWrittenIfTheCommandFailsAtTheStart(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{"fails": "exit 3", "hangs": "sleep 100"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeaves(t)
			c := l.start("--duration=5s", "--after", command)
			assert.Contains(t, c.Rest(), "--after")
			assert.Equal(t, "exit status 75", c.End())
			leases, err := l.client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Empty(t, leases.Items)
		})
	}
}

// Another bellwether of the Lease that starts on the leader's host does not clear it.
func TestOnlyOneOfAHostClearsIt(t *testing.T) {
	t.Parallel()
	l := newLeaves(t)
	a := l.start("--after", "rm -f "+l.file)
	await(t, a, "works")
	b := l.start("--after", "rm -f "+l.file)
	await(t, b, "waiting for the end of another")
	assert.FileExists(t, l.file)
	a.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 143", a.End())
	await(t, b, "works")
	b.Send(unix.SIGTERM)
	assert.Equal(t, "exit status 143", b.End())
}

// The example: of two hosts with a virtual IP address, one has it.
func TestOneHostHasTheAddress(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	a, b := newNetwork(t, e), newNetwork(t, e)
	first := a.address()
	eventually(t, a.has, "the address is on the first host")
	second := b.address()
	await(t, second, `"following"`)
	require.False(t, b.has())

	require.NoError(t, unix.Kill(childOf(t, first), unix.SIGKILL))
	assert.Equal(t, "exit status 137", first.End())
	assert.False(t, a.has(), "bellwether was killed")
	eventually(t, b.has, "the address is on the second host")

	a.run("ip", "address", "add", address, "dev", "lo") // it was killed with all that it had started
	first = a.address()
	await(t, first, `"following"`)
	assert.False(t, a.has(), "cleared at the start")

	require.NoError(t, e.client.CoordinationV1().Leases("default").Delete(t.Context(), "virtual-address",
		metav1.DeleteOptions{}))
	assert.Equal(t, "exit status 75", second.End())
	assert.False(t, b.has(), "the Lease was deleted")
	first.Send(unix.SIGTERM)
	first.Rest()
	first.End()
	assert.False(t, a.has())
}

const address = "192.0.2.1/32" // for documentation (RFC 5737)

// network is a host's: a namespace, from which the API server can be reached.
type network struct {
	t         *testing.T
	e         *election
	namespace *os.File
	config    string // a kubeconfig
}

// newNetwork needs the right to make namespaces.
func newNetwork(t *testing.T, e *election) *network {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("NOT TESTED: needs ip of iproute2: ", err)
	}
	n := &network{t: t, e: e}
	var listener net.Listener
	n.inNew(func() {
		var err error
		n.namespace, err = os.Open("/proc/thread-self/ns/net")
		require.NoError(t, err)
		require.NoError(t, exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").Run())
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
	})
	t.Cleanup(func() { assert.NoError(t, n.namespace.Close()) })
	config, err := clientcmd.LoadFromFile(e.kubeconfig)
	require.NoError(t, err)
	cluster := config.Clusters[config.Contexts[config.CurrentContext].Cluster]
	at, err := url.Parse(cluster.Server)
	require.NoError(t, err)
	server := at.Host
	at.Host = listener.Addr().String()
	cluster.Server = at.String()
	n.config = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, n.config))
	done := make(chan struct{})
	go func() {
		defer close(done)
		forward(listener, server)
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return n
}

// forward connects those who connect with a server, until the listener is closed and they have gone.
func forward(listener net.Listener, server string) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			_ = client.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{client, upstream}, {upstream, client}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_, _ = way[0].Close(), way[1].Close()
			}()
		}
	}
}

// inNew calls f in a new namespace. Its thread ends with it.
func (n *network) inNew(f func()) {
	n.t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			f()
		}
	}()
	<-done
	if err != nil {
		n.t.Skip("NOT TESTED: needs the right to make network namespaces, as root has: ", err)
	}
}

// in calls f in the namespace. Processes that it starts are there, too.
func (n *network) in(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if assert.NoError(n.t, unix.Setns(int(n.namespace.Fd()), unix.CLONE_NEWNET)) {
			f()
		}
	}()
	<-done
}

// run runs a program there, and returns its output.
func (n *network) run(program string, arguments ...string) (output string) {
	n.t.Helper()
	n.in(func() {
		out, err := exec.CommandContext(n.t.Context(), program, arguments...).CombinedOutput()
		assert.NoError(n.t, err, "%s", out)
		output = string(out)
	})
	return output
}

// has reports whether this host has the address.
func (n *network) has() bool {
	return strings.Contains(n.run("ip", "address", "show", "dev", "lo"), address)
}

// address starts the example.
func (n *network) address() *subprocess.Child {
	n.t.Helper()
	bin := n.t.TempDir()
	self, err := os.Executable()
	require.NoError(n.t, err)
	require.NoError(n.t, os.Symlink(self, filepath.Join(bin, "bellwether")))
	c := subprocess.New(n.t, "bellwether")
	c.Path = "../../examples/run/address.sh"
	c.Args = []string{c.Path, address, "lo", "--kubeconfig", n.config, "--duration=8s"}
	c.Env = append(c.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	n.in(func() { c.Start() })
	return c
}
