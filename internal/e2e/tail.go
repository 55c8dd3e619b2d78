package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Tail reads a file to which another process appends lines. Its methods must not be called
// concurrently.
type Tail struct {
	// Path of the file. It need not be there yet.
	Path string
	// Discard returns the space of read lines to the file system, where possible (Linux). A file
	// that grows for hours then takes only the space of unread lines.
	Discard bool

	file              *os.File
	offset, discarded int64
}

// discardAt is how many bytes are worth a system call.
const discardAt = 1 << 20

// Read calls see with each line that has been completed since the last call, without its newline,
// and stops at an error of see.
func (t *Tail) Read(see func(line []byte) error) error {
	if t.file == nil {
		mode := os.O_RDONLY
		if t.Discard {
			mode = os.O_RDWR // or a hole could not be made
		}
		file, err := os.OpenFile(t.Path, mode, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("e2e: tail: %w", err)
		}
		t.file = file
	}
	if _, err := t.file.Seek(t.offset, io.SeekStart); err != nil {
		return fmt.Errorf("e2e: tail: %w", err)
	}
	reader := bufio.NewReaderSize(t.file, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // the last line may still be being written
			return t.discard()
		}
		if err != nil {
			return fmt.Errorf("e2e: tail: %w", err)
		}
		t.offset += int64(len(line))
		if err := see(line[:len(line)-1]); err != nil {
			return err
		}
	}
}

func (t *Tail) discard() error {
	if !t.Discard || t.offset-t.discarded < discardAt {
		return nil
	}
	if err := punch(t.file, t.offset); err != nil {
		return fmt.Errorf("e2e: tail: %w", err)
	}
	t.discarded = t.offset
	return nil
}

// Close closes the file. It may be called again.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
