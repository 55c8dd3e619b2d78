package process

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// shrink gives back memory that this process no longer needs: what its initialization has left
// behind, and the pages of the program's file. Those that are needed again are read from the page
// cache, which the child shares.
func shrink() {
	debug.FreeOSMemory()
	const self = "/proc/self/exe"
	name, err := os.Readlink(self)
	if err != nil {
		return
	}
	file, err := elf.Open(self)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	// A loader has written to data before they became read-only (-buildmode=pie), so the file has
	// others.
	relocated := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_RELRO })
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		var start, end uintptr
		var mode string
		_, err := fmt.Sscanf(line, "%x-%x %s", &start, &end, &mode)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(line), name) {
			continue
		}
		if code := mode == "r-xp"; code || mode == "r--p" && !relocated {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_DONTNEED) // on failure it stays larger
		}
	}
}
