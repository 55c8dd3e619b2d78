package docs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// slogCore writes what zap logs to a slog.Handler.
type slogCore struct{ handler slog.Handler }

func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slog.Level(4*l)) // zap counts levels by 1, slog by 4
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.handler.WithAttrs(attributes(fields))}
}

func (c slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) {
		return checked
	}
	return checked.AddCore(e, c)
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slog.Level(4*e.Level), e.Message, e.Caller.PC)
	r.AddAttrs(attributes(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (c slogCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	attributes := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		values := zapcore.NewMapObjectEncoder()
		f.AddTo(values)
		for key, value := range values.Fields {
			attributes = append(attributes, slog.Any(key, value))
		}
	}
	return attributes
}

func TestSlogHandlerGetsWhatZapLogs(t *testing.T) {
	var out bytes.Buffer
	log := zap.New(slogCore{slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})})
	log.Debug("not at this level")
	log.With(zap.String("lease", "a")).Info("started leading", zap.Int("term", 3))
	log.Warn("request failed", zap.Error(errors.New("no answer")), zap.Strings("verbs", []string{"get"}))
	log.Error("lost")
	assert.Equal(t, `level=INFO msg="started leading" lease=a term=3
level=WARN msg="request failed" error="no answer" verbs=[get]
level=ERROR msg=lost
`, out.String())
}
