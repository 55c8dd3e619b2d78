package subprocess

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const programEnv = "BELLWETHER_TEST_PROGRAM"

// Main is a TestMain. In a [Child] it runs its program, else the tests, which must leave neither
// goroutines nor processes: those that their children leave behind become this process' own.
func Main(m *testing.M, programs map[string]func()) {
	if name, ok := os.LookupEnv(programEnv); ok {
		programs[name]()
		os.Exit(0)
	}
	DefaultSignals()
	unix.Umask(0o022) // other users run copies of this program, and read what it writes for them
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // children wait more than they work
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
			fmt.Fprintln(os.Stderr, "a test left processes behind; one that has ended, or 0:", pid, err)
			code = 1
		}
		os.Exit(code)
	}))
}
