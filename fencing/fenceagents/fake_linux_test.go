package fenceagents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

const patience = 20 * time.Second

var programs = map[string]func(){
	"agent": fakeAgent, "child": sleep, "controller": controller,
	"controller that sees no child end": func() {
		signal.Ignore(syscall.SIGCHLD)
		controller()
	},
}

func TestMain(m *testing.M) { subprocess.Main(m, programs) }

// call is what the fake agent was given, and who it is.
type call struct {
	PID, Child  int
	Arguments   []string
	Environment []string
	Input       string
}

// fakeAgent does as its parameters say. It appends what it was given to the file "calls" beside it.
func fakeAgent() {
	input, err := io.ReadAll(os.Stdin)
	must(err)
	given := map[string]string{}
	for line := range strings.Lines(string(input)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		given[name] = value
	}
	me := call{PID: os.Getpid(), Arguments: os.Args[1:], Environment: os.Environ(), Input: string(input)}
	if given["action"] == "metadata" {
		record(me)
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "slow")); err == nil {
			<-time.After(1500 * time.Millisecond)
		}
		metadata, err := os.ReadFile(filepath.Join(filepath.Dir(os.Args[0]), "metadata"))
		must(err)
		_, _ = os.Stdout.Write(metadata)
		return
	}
	if kind := given["child"]; kind != "" {
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "BELLWETHER_TEST_PROGRAM=child")
		if kind != "in the group" {
			child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if kind == "escaped" {
			child.Env = []string{"BELLWETHER_TEST_PROGRAM=child"}
			child.Stdout = os.Stdout
		}
		must(child.Start())
		me.Child = child.Process.Pid
	}
	record(me)
	_, _ = io.WriteString(os.Stderr, strings.ReplaceAll(given["complains"], "INPUT", string(input)))
	switch given["does"] {
	case "hangs":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		sleep()
	case "floods":
		for {
			_, _ = os.Stdout.Write(make([]byte, 1<<16))
			_, _ = os.Stderr.Write(make([]byte, 1<<16))
		}
	case "floods and says":
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("x"), 2<<20))
	case "is killed":
		must(unix.Kill(os.Getpid(), unix.SIGKILL))
	}
	fmt.Print(strings.ReplaceAll(given["says"], "|", "\n"))
	code, err := strconv.Atoi("0" + given["code"])
	must(err)
	os.Exit(code)
}

func sleep() { <-time.After(time.Hour) }

func record(c call) {
	file, err := os.OpenFile(filepath.Join(filepath.Dir(os.Args[0]), "calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY,
		0o600)
	must(err)
	must(json.NewEncoder(file).Encode(c))
	must(file.Close())
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// controller runs an agent: of a directory, which does something, and starts a child. These are its
// arguments.
func controller() {
	agents, err := fenceagents.New(configFor(os.Args[1]))
	must(err)
	_, _ = agents.Metadata(context.Background(), "fence_fake")
	target := target(map[string]string{"plug": "1", "does": os.Args[2], "child": os.Args[3]})
	fmt.Println(agents.Switch(context.Background(), target,
		agent.Command{Action: agent.ActionOff, Timeout: time.Hour}))
}

// A fence agent's metadata, short.
const metadata = `<?xml version="1.0" ?>
<resource-agent name="fence_fake" shortdesc="Fence agent for tests" >
<longdesc>It obeys.</longdesc>
<parameters>
	<parameter name="action" unique="0" required="1"><content type="string" default="reboot" /></parameter>
	<parameter name="ip" unique="0" required="0" obsoletes="ipaddr"><content type="string" /></parameter>
	<parameter name="ipaddr" unique="0" required="0" deprecated="1"><content type="string" /></parameter>
	<parameter name="plug" unique="0" required="1" obsoletes="port"><content type="string" /></parameter>
	<parameter name="port" unique="0" required="1" deprecated="1"><content type="string" /></parameter>
	<parameter name="password" unique="0" required="0" obsoletes="passwd"><content type="string" /></parameter>
	<parameter name="passwd" unique="0" required="0" deprecated="1"><content type="string" /></parameter>
	<parameter name="username" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="resourceGroup" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="ssl_insecure" unique="0" required="0"><content type="boolean" /></parameter>
	<parameter name="ssl" unique="0" required="0"><content type="boolean" default="1" /></parameter>
	<parameter name="does" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="says" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="complains" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="code" unique="0" required="0"><content type="integer" default="0" /></parameter>
	<parameter name="child" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="password_script" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="ipmitool_path" unique="0" required="0">
		<content type="string" default="/usr/bin/ipmitool" /></parameter>
	<parameter name="api_path" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="plug_separator" unique="0" required="0"><content type="string" default="," /></parameter>
	<parameter name="ssh_path" unique="0" required="0"><content type="string" default="/usr/bin/ssh" /></parameter>
	<parameter name="ssh_options" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="debug_file" unique="0" required="0"><content type="string" /></parameter>
	<parameter name="verbose" unique="0" required="0"><content type="boolean" /></parameter>
	<parameter name="version" unique="0" required="0"><content type="boolean" /></parameter>
	<parameter name="delay" unique="0" required="0"><content type="second" default="0" /></parameter>
	<parameter name="missing_as_off" unique="0" required="0"><content type="boolean" /></parameter>
	<parameter name="method" unique="0" required="0"><content type="select" default="onoff">
		<option value="onoff" /><option value="cycle" /></content>
		<shortdesc lang="en">Method
		to fence</shortdesc></parameter>
</parameters>
<actions>
	<action name="on" automatic="0"/>
	<action name="off" />
	<action name="status" />
	<action name="metadata" />
</actions>
</resource-agent>
`

// fake is a directory with the fake agent.
type fake struct {
	t         *testing.T
	directory string
}

func newFake(t *testing.T) fake {
	t.Helper()
	f := fake{t, t.TempDir()}
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink(self, filepath.Join(f.directory, "fence_fake")))
	f.prints(metadata)
	return f
}

func (f fake) prints(metadata string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(filepath.Join(f.directory, "metadata"), []byte(metadata), 0o600))
}

func configFor(directory string) fenceagents.Config {
	return fenceagents.Config{
		Directory:   directory,
		Environment: []string{"BELLWETHER_TEST_PROGRAM=agent", "GORACE=atexit_sleep_ms=0"},
		Timeout:     patience,
	}
}

// agents are such as know the fake's metadata already, or are not going to.
func (f fake) agents() *fenceagents.Agents {
	f.t.Helper()
	agents, err := fenceagents.New(configFor(f.directory))
	require.NoError(f.t, err)
	_, _ = agents.Metadata(f.t.Context(), "fence_fake")
	return agents
}

// calls returns what the agent was given, without being asked for its metadata.
func (f fake) calls() []call {
	f.t.Helper()
	written, err := os.ReadFile(filepath.Join(f.directory, "calls"))
	if !errors.Is(err, os.ErrNotExist) {
		assert.NoError(f.t, err)
	}
	var calls []call
	for line := range strings.Lines(string(written)) {
		if !strings.HasSuffix(line, "\n") {
			break // it is being written
		}
		var c call
		assert.NoError(f.t, json.Unmarshal([]byte(line), &c))
		if c.Input != "action=metadata\n" {
			calls = append(calls, c)
		}
	}
	return calls
}

// call waits for the first call.
func (f fake) call() call {
	f.t.Helper()
	if !assert.Eventually(f.t, func() bool { return len(f.calls()) > 0 }, patience, time.Millisecond) {
		return call{}
	}
	return f.calls()[0]
}

func target(parameters map[string]string) agent.Target {
	return agent.Target{
		Node: "worker-1", Device: "fence_fake/192.0.2.1/1", Agent: "fence_fake",
		Parameters: agent.NewParameters(parameters),
	}
}

var off = agent.Command{ID: "1", Action: agent.ActionOff}

// assertGone asserts that a process was killed, and is gone already: not even a zombie of the tests
// is left.
func assertGone(t *testing.T, pid int) {
	t.Helper()
	assert.NotZero(t, pid)
	assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
}
