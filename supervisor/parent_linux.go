package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// parentVariable is the environment variable with the process number of the supervisor. Processes
// that the child starts inherit it, but have another parent.
const parentVariable = "BELLWETHER_SUPERVISOR"

func start() *Supervisor {
	if os.Getenv(parentVariable) == "off" {
		return &Supervisor{why: parentVariable + " is off"}
	}
	if os.Getenv(parentVariable) == strconv.Itoa(os.Getppid()) { // a child must never start another one
		p, err := inherited()
		if err == nil {
			err = process.EndWithSupervisor()
		}
		if err != nil {
			return &Supervisor{why: err.Error()}
		}
		return &Supervisor{page: p, bind: process.EndWithSupervisor, slots: map[types.NamespacedName]*openSlot{}}
	}
	p, file, err := newPage()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bellwether: no memory to share with a child:", err)
		os.Exit(process.ExitCannotStart)
	}
	os.Exit(process.Supervise(process.Supervision{
		File: file, Variable: parentVariable, Ended: p.settle,
	}))
	return nil // not reached
}

func newPage() (*page, *os.File, error) {
	fd, err := unix.MemfdCreate("bellwether", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "bellwether")
	switch err := unix.Ftruncate(fd, int64(pageSize)); {
	case errors.Is(err, unix.EFBIG):
		return nil, nil, fmt.Errorf("ftruncate: RLIMIT_FSIZE (ulimit -f) must allow %d bytes: %w", pageSize, err)
	case err != nil:
		return nil, nil, fmt.Errorf("ftruncate: %w", err)
	}
	p, err := mapPage(fd)
	if err != nil {
		return nil, nil, err
	}
	p.magic = magic
	return p, file, nil
}

func mapPage(fd int) (*page, error) {
	memory, err := unix.Mmap(fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return (*page)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}

// inherited returns the page of this process' supervisor.
func inherited() (*page, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(process.SupervisedFile, &stat); err != nil {
		return nil, fmt.Errorf("the supervisor's memory is not open: %w", err)
	}
	if stat.Size != int64(pageSize) {
		return nil, fmt.Errorf("the supervisor's memory has %d bytes, not %d", stat.Size, pageSize)
	}
	p, err := mapPage(process.SupervisedFile)
	if err != nil {
		return nil, err
	}
	if p.magic != magic {
		return nil, errors.New("the supervisor's memory is of another version")
	}
	unix.CloseOnExec(process.SupervisedFile)
	return p, nil
}
