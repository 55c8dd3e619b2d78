package main

import (
	"bytes"
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bellwether-k8s/bellwether/internal/process"
)

// waiting is how many lines of the log may wait for their reader.
const waiting = 1000

// output writes to standard error for callers that must not wait, because its reader may have
// stopped. If too much waits, it drops what is new.
type output struct {
	to     io.Writer
	writes chan func()
}

func newOutput(to io.Writer) *output {
	o := &output{to, make(chan func(), waiting)}
	go func() { // until this process ends
		for write := range o.writes {
			write()
		}
	}()
	return o
}

// Write implements [io.Writer]. It returns at once.
func (o *output) Write(line []byte) (int, error) {
	line = bytes.Clone(line)
	select {
	case o.writes <- func() { _, _ = o.to.Write(line) }:
	default:
	}
	return len(line), nil
}

// Sync implements [zapcore.WriteSyncer]. It gives the lines that wait 50 ms.
func (o *output) Sync() error {
	process.RunWithTimeout(func() {
		written := make(chan struct{})
		o.writes <- func() { close(written) }
		<-written
	})
	return nil
}

// newLog returns the log of this process, which shares its output with the program.
func newLog(to *output) (*zap.Logger, error) {
	c := zap.NewProductionConfig()
	c.DisableStacktrace = true // an error here is about the program, or the cluster
	return c.Build(zap.WrapCore(func(zapcore.Core) zapcore.Core {
		return zapcore.NewCore(zapcore.NewJSONEncoder(c.EncoderConfig), to, c.Level)
	}))
}
