package e2e

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// punch frees the space of a file's first bytes. The file keeps its length, so that a process that
// appends to it is not disturbed.
func punch(file *os.File, bytes int64) error {
	err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) { // some file systems cannot
		return nil
	}
	return err
}
