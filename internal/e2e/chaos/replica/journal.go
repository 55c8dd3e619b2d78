package main

import (
	"fmt"
	"os"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// journal records when work begins and ends. Each line is one write to the file, before anything
// else happens. So the lines survive any end of the process.
type journal struct {
	file   *os.File
	pieces atomic.Int64
}

func newJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

// begin records that a piece of work begins, and returns a function that records its end. If the
// journal cannot be written the process ends: without it nothing can be judged.
func (j *journal) begin(object types.UID) (piece int64, end func()) {
	piece = j.pieces.Add(1)
	j.write("begin %d %d %s\n", piece, process.SinceBoot(), object)
	return piece, func() { j.write("end %d %d\n", piece, process.SinceBoot()) }
}

func (j *journal) write(format string, args ...any) {
	if _, err := j.file.Write(fmt.Appendf(nil, format, args...)); err != nil {
		panic(err)
	}
}
