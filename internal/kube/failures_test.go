package kube_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// attempts is a Failures in virtual time, with what it has logged.
type attempts struct {
	*kube.Failures
	logs *observer.ObservedLogs
}

func newAttempts() attempts {
	core, logs := observer.New(zap.DebugLevel)
	return attempts{kube.NewFailures(zap.New(core), clock.System()), logs}
}

func (a attempts) note(err error) { a.Note("get", err, "request failed", "request succeeds again") }

// failFor has an attempt fail every second for d.
func (a attempts) failFor(d time.Duration, err error) {
	for range int(d / time.Second) {
		a.note(err)
		time.Sleep(time.Second)
	}
}

// said returns the new lines: message, error, and for how long.
func (a attempts) said() (all []string) {
	for _, line := range a.logs.TakeAll() {
		fields := line.ContextMap()
		text := line.Message
		for _, key := range []string{"error", "for", "after"} {
			if value, ok := fields[key]; ok {
				text += fmt.Sprintf(", %s: %v", key, value)
			}
		}
		all = append(all, text)
	}
	return all
}

func TestFailuresThatLastAreLoggedEveryTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		refused := errors.New("connection refused")
		a.failFor(10*time.Minute, refused)
		assert.Equal(t, []string{"request failed, error: connection refused"}, a.said())
		a.failFor(time.Hour, refused)
		said := a.said()
		require.Len(t, said, 6)
		assert.Equal(t, "request failed, error: connection refused, for: 10m0s", said[0])
		assert.Equal(t, "request failed, error: connection refused, for: 1h0m0s", said[5])
		a.note(nil)
		a.note(nil)
		assert.Equal(t, []string{"request succeeds again, after: 1h10m0s"}, a.said())
		a.note(refused)
		assert.Equal(t, []string{"request failed, error: connection refused"}, a.said())
	})
}

func TestEachReasonOfAFailureIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		for i := range 30 {
			a.note(fmt.Errorf("read tcp 127.0.0.1:%d: connection reset", 40000+i))
			a.note(errors.New(`namespaces "ns" not found`))
			time.Sleep(time.Second)
		}
		assert.Equal(t, []string{
			"request failed, error: read tcp 127.0.0.1:40000: connection reset",
			`request failed, error: namespaces "ns" not found`,
		}, a.said(), "a changed reason at once, the same with another port not at all")
		a.failFor(10*time.Minute, errors.New("unauthorized"))
		assert.Equal(t, []string{"request failed, error: unauthorized, for: 30s"}, a.said()[:1])
		for i := range 100 {
			a.note(errors.New("reason " + string(rune('A'+i))))
		}
		assert.LessOrEqual(t, len(a.said()), 5, "reasons without end do not fill the log")
	})
}

func TestAFailureAfterALongTimeWithoutAttemptsIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		a.note(errors.New("unavailable"))
		time.Sleep(24 * time.Hour)
		a.note(errors.New("unavailable"))
		assert.Equal(t, []string{"request failed, error: unavailable", "request failed, error: unavailable"}, a.said())
	})
}

func TestFailuresOfEachSubjectAreTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		a.note(errors.New("unavailable"))
		a.NoteAt(zap.InfoLevel, "watch", errors.New("unavailable"), "watch failed", "", zap.String("verb", "watch"))
		a.NoteAt(zap.InfoLevel, "watch", nil, "watch failed", "")
		lines := a.logs.TakeAll()
		require.Len(t, lines, 2, "an empty message is not logged")
		a.Over("get")
		a.note(nil)
		assert.Empty(t, a.logs.TakeAll())
		assert.Equal(t, zap.WarnLevel, lines[0].Level)
		assert.Equal(t, zap.InfoLevel, lines[1].Level)
		assert.Equal(t, "watch", lines[1].ContextMap()["verb"])
	})
}
