package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// sandboxEnv has the control groups of the sandbox as JSON: this process is the first one of new
// namespaces.
const sandboxEnv = "BELLWETHER_REALNODE_SANDBOX"

// cleanScript waits until the test has ended, however it ends: then the kernel closes the pipe.
// Everything in the namespaces ends then, what is frozen as soon as it continues. When all is gone,
// the script removes the control groups, which are its arguments but the first. It removes the files
// unless it has read that they are wanted.
const cleanScript = `trap '' INT TERM HUP QUIT
read -r wanted
files=$1
shift
for attempt in $(seq 300); do
  left=
  for group; do
    [ -d "$group" ] || continue
    find "$group" -name freezer.state | while read -r state; do echo THAWED > "$state"; done
    find "$group" -depth -type d -exec rmdir {} ';'
    [ ! -d "$group" ] || left=yes
  done
  [ -n "$left" ] || break
  sleep 0.1
done 2> /dev/null
[ -n "$wanted" ] || rm -rf "$files"`

// Main is a TestMain: it runs the tests in namespaces of their own, with a cluster, where this
// machine can have one; else the cluster stays nil. If a test fails, the logs stay.
func Main(m *testing.M, shared **Cluster, options Options) {
	Boot()
	code, err := 0, error(nil)
	switch {
	case Missing() != nil:
		code = m.Run() // the tests say why they are skipped
	case Inside():
		code, err = runTests(m, shared, options)
	default:
		ctx := context.Background() //nolint:forbidigo // TestMain is where contexts begin
		if err = Download(ctx, options.Images); err == nil {
			code, err = Enter(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runTests(m *testing.M, shared **Cluster, options Options) (int, error) {
	c, err := New(context.Background(), options) //nolint:forbidigo // TestMain is where contexts begin
	if err != nil {
		return 1, err
	}
	*shared = c
	if code := m.Run(); code != 0 {
		return code, errors.Join(fmt.Errorf("logs of the cluster: %s", c.Dir), c.stop())
	}
	return 0, c.Close()
}

// Boot is for the beginning of a main function. It does not return in the first process of a node.
func Boot() {
	how := os.Getenv(bootEnv)
	if how == "" {
		return
	}
	var b boot
	err := json.Unmarshal([]byte(how), &b)
	if err == nil {
		err = b.run()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Inside reports whether this process is one that [Enter] has started: it may call [New].
func Inside() bool { return os.Getenv(sandboxEnv) != "" }

// Download downloads what images are built from, as [New] cannot: in its namespaces there is no network.
func Download(ctx context.Context, images map[string]Image) error {
	modules := map[string]bool{"": true}
	for _, image := range images {
		modules[image.Module] = true
	}
	for module := range modules {
		if err := e2e.Download(ctx, module); err != nil {
			return err
		}
	}
	return nil
}

// Enter executes this program again, with the same arguments, as the first process of new
// namespaces, and returns its exit code. If that is not 0, files that it has left stay. It inherits
// these files, from number 3 on. When ctx ends it gets SIGTERM, and Enter waits for its end.
func Enter(ctx context.Context, inherited ...*os.File) (code int, err error) {
	// What is built is built here: in the namespaces there is no network.
	if _, err := e2e.Binaries(ctx, os.Stderr); err != nil {
		return 1, err
	}
	if _, err := e2e.NodeBinary(ctx, os.Stderr); err != nil {
		return 1, err
	}
	groups, err := cgroupsBelow(fmt.Sprintf("bellwether-%d", os.Getpid()))
	if err != nil {
		return 1, err
	}
	encoded, err := json.Marshal(groups)
	if err != nil {
		return 1, err
	}
	files, err := os.MkdirTemp("", "bellwether-realnode-")
	if err != nil {
		return 1, err
	}
	clean, err := cleanAtTheEnd(files, groups)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, clean(code != 0)) }()
	if err := groups.create(); err != nil {
		return 1, err
	}
	runtime.LockOSThread() // the kernel ends the sandbox with the thread that has made it
	defer runtime.UnlockOSThread()
	first := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	first.Cancel = func() error { return first.Process.Signal(syscall.SIGTERM) }
	first.Env = append(os.Environ(),
		sandboxEnv+"="+string(encoded), "TMPDIR="+files,
		"CGO_ENABLED=0", // images have no C library
	)
	first.Stdin, first.Stdout, first.Stderr = os.Stdin, os.Stdout, os.Stderr
	first.ExtraFiles = inherited
	first.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
	}
	var exit *exec.ExitError
	if err := first.Run(); err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return 1, err
	}
	if code = first.ProcessState.ExitCode(); code < 0 {
		return 1, fmt.Errorf("realnode: the sandbox ended with %v", first.ProcessState)
	}
	return code, nil
}

// cleanAtTheEnd starts the script that removes what the kernel leaves. The function that it returns
// has it do so now, and waits.
func cleanAtTheEnd(files string, groups cgroups) (clean func(keepFiles bool) error, err error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	script := exec.Command("/bin/sh", append([]string{"-c", cleanScript, "clean", files}, groups...)...)
	script.Stdin = reader
	script.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := script.Start(); err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return func(keepFiles bool) error {
		if keepFiles {
			fmt.Fprintln(writer, "keep")
		}
		return errors.Join(writer.Close(), script.Wait())
	}, nil
}

// settle makes this process, the first one of the sandbox, see and be only what is in there.
func settle() error {
	var groups cgroups
	if err := json.Unmarshal([]byte(os.Getenv(sandboxEnv)), &groups); err != nil {
		return fmt.Errorf("realnode: not in a sandbox: %w", err)
	}
	if err := groups.join(); err != nil {
		return fmt.Errorf("realnode: %w", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("realnode: mount: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("realnode: mount /proc: %w", err)
	}
	return nil
}
