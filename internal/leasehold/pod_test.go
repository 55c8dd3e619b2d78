package leasehold

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	logtest "go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// badgeOf returns the badge of a process with a termination log.
func badgeOf(t *testing.T, log *zap.Logger) *badge {
	t.Helper()
	file := filepath.Join(t.TempDir(), "termination-log")
	require.NoError(t, os.WriteFile(file, []byte("before\n"), 0o600))
	return &badge{config: &Config{
		Lease: name, Process: "MARK", Timing: lease.Timing{Margin: 3 * time.Second}, Log: log,
		Pod: Pod{Name: "p", UID: "u", MinUptime: time.Minute, Log: file},
	}}
}

func TestRecordNamesThePod(t *testing.T) {
	b := badgeOf(t, zap.NewNop())
	l := lease.Record{}.Acquired(name, "a", 15*time.Second, at(0))
	lease.SetProcess(l, "MARK")
	b.annotate(l, 59*time.Second)
	_, ok := lease.RecordOf(l).PodProcess(name)
	assert.False(t, ok, "before MinUptime")
	b.annotate(l, time.Minute)
	b.annotate(l, time.Hour)
	n, ok := lease.RecordOf(l).PodProcess(name)
	require.True(t, ok)
	assert.Equal(t, lease.PodProcess{Lease: name, Pod: "p", UID: "u", Process: "MARK", Margin: 3 * time.Second}, n)
	message, err := os.ReadFile(b.config.Pod.Log)
	require.NoError(t, err)
	assert.Equal(t, "before\nbellwether: lease ns/l, process MARK\n", string(message), "once")

	released := lease.RecordOf(l).Release(at(1))
	b.annotate(released, time.Hour)
	assert.NotContains(t, released.Annotations, lease.PodAnnotation)
	next := lease.RecordOf(l).Acquired(name, "b", 15*time.Second, at(1))
	assert.NotContains(t, next.Annotations, lease.PodAnnotation)
}

// TestNothingNamesAPodWithoutAMark has a process that is in no container, or may not write.
func TestNothingNamesAPodWithoutAMark(t *testing.T) {
	core, logs := logtest.New(zap.InfoLevel)
	b := badgeOf(t, zap.New(core))
	b.config.Pod.Log += ".absent"
	l := lease.Record{}.Acquired(name, "a", 15*time.Second, at(0))
	b.annotate(l, time.Hour)
	b.annotate(l, time.Hour)
	assert.NotContains(t, l.Annotations, lease.PodAnnotation)
	assert.Equal(t, 1, logs.Len())
	assert.NoFileExists(t, b.config.Pod.Log)
}
