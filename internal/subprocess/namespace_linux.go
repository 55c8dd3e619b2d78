package subprocess

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// StartAsPID1 starts c as PID 1 of a pid namespace of its own. It skips the test where the system
// allows none.
func StartAsPID1(t *testing.T, c *exec.Cmd) {
	t.Helper()
	startIn(t, c, unix.CLONE_NEWPID)
}

// startIn starts c in new namespaces, and with the right to enter others.
func startIn(t *testing.T, c *exec.Cmd, namespaces uintptr) {
	t.Helper()
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	if !privileged() { // but anyone may be in a user namespace of his own, often
		namespaces |= unix.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	c.SysProcAttr.Cloneflags |= namespaces
	err := c.Start()
	for _, refusal := range []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, refusal) {
			t.Skipf("NOT TESTED: this system allows no namespaces (CAP_SYS_ADMIN: %t): %v", privileged(), err)
		}
	}
	require.NoError(t, err)
}

func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}
