package supervisor_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/internal/mutation"
)

const supervise = "../internal/process/supervise_linux.go"

// mutations remove what makes the death of a child a proof.
var mutations = []mutation.Mutation{
	{
		Name: "descendants are not waited for", File: "settle_linux.go",
		Old: "if !process.EndDescendants(last) {", New: "if last == 0 {", Caught: "TestDescendantsEndBeforeTheRelease",
	},
	{
		Name: "the child outlives its supervisor if it has closed the lifeline", File: supervise,
		Old: "Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL},",
		New: "Sys: &syscall.SysProcAttr{Setpgid: true},", Caught: "TestChildDiesWithItsSupervisor",
	},
	{
		Name: "the child outlives its supervisor if the kernel has forgotten its signal", File: supervise,
		Old: "{unix.F_SETSIG, int(unix.SIGKILL)}", New: "{unix.F_SETSIG, int(unix.SIGURG)}",
		Caught: "TestChildDiesWithItsSupervisor",
	},
	{
		Name: "orphans of the child are not the supervisor's", File: supervise,
		Old: "unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)", New: "unix.Prctl(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)",
		Caught: "TestDescendantsEndBeforeTheRelease",
	},
	{
		Name: "half a version is read", File: "page.go",
		Old: "crc32.ChecksumIEEE(s.record[:n]) != uint32(header) || ", New: "",
		Caught: "TestStoredVersionIsWhatTheSupervisorReads",
	},
	{
		Name: "a request is not counted before it is sent", File: "page.go",
		Old: "func (s *slot) Send() { s.open.Add(1) }", New: "func (s *slot) Send() {}",
		Caught: "TestRequestsUnderWayAreWaitedFor",
	},
}

func TestMutationsAreCaught(t *testing.T) {
	t.Cleanup(func() { // daemons that a mutation has spared become children of this process
		for err := error(nil); !errors.Is(err, unix.ECHILD); {
			_, err = unix.Wait4(-1, nil, 0, nil)
		}
	})
	mutation.Catch(t, mutations)
}
