package process

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// shrink gives back memory that this process needs no more: what its initialization has left
// behind, and the pages of the program's file. Those that are needed again are read from the page
// cache, which the child shares.
func shrink() {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		var start, end uintptr
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode); err != nil || mode[1] == 'w' ||
			!strings.HasSuffix(strings.TrimSpace(line), program) {
			continue
		}
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED) // without it, it is larger
	}
}
