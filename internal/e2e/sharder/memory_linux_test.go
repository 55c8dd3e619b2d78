package sharder_test

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// BenchmarkSharderMemory is what the process of a sharder takes when it has been started over so
// many objects, which are assigned already, and has looked at all of them several times.
func BenchmarkSharderMemory(b *testing.B) {
	measureMemory(b, 0, 1_000, 10_000, 50_000)
}

// BenchmarkSharderMemoryOfLargeObjects is the same for objects with an annotation of 50 kB each.
func BenchmarkSharderMemoryOfLargeObjects(b *testing.B) {
	measureMemory(b, 50_000, 2_000)
}

func measureMemory(b *testing.B, annotated int, counts ...int) {
	b.Helper()
	const scans = 3
	c := newCrowd(b)
	c.annotated = annotated
	sharder := c.start("sharder", "-without-shard", "-scan-interval=1s", "-balance=1.25")
	c.start("a", "-lease-only")
	c.start("b", "-lease-only")
	c.requireSettled("a", "b") // who would not let go of anything
	objects := 0
	for _, n := range counts {
		b.Run(fmt.Sprintf("%d-objects", n), func(b *testing.B) {
			c.create(n - objects)
			objects = n
			all := []string{"scan", strconv.Itoa(n), strconv.Itoa(n)}
			c.requireSaid("sharder", c.said("sharder", all...), all...)
			require.NoError(b, sharder.Restart())
			c.requireSaid("sharder", c.said("sharder", all...)+scans-1, all...)
			heap := c.heap("sharder", sharder)
			b.ReportMetric(heap/1e6, "heap-MB")
			b.ReportMetric(residentMB(b, sharder, "VmRSS"), "rss-MB")
			b.ReportMetric(residentMB(b, sharder, "VmHWM"), "peak-rss-MB")
			b.ReportMetric(0, "ns/op") // leaves it out
		})
	}
}

// heap returns the bytes on the heap of a replica that it can still reach.
func (c *cluster) heap(name string, p *e2e.Process) float64 {
	c.t.Helper()
	n := c.said(name, "heap")
	require.NoError(c.t, syscall.Kill(p.Pid(), syscall.SIGUSR1))
	c.requireSaid(name, n, "heap")
	c.mu.Lock()
	defer c.mu.Unlock()
	var heap float64
	for _, l := range c.lines {
		if l.replica == name && l.words[0] == "heap" {
			bytes, err := strconv.ParseFloat(l.words[1], 64)
			require.NoError(c.t, err)
			heap = bytes
		}
	}
	return heap
}

// residentMB reads a field of a process's status.
func residentMB(b *testing.B, p *e2e.Process, field string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid()))
	require.NoError(b, err)
	for line := range bytes.Lines(status) {
		if value, ok := strings.CutPrefix(string(line), field+":"); ok {
			kB, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			require.NoError(b, err)
			return kB * 1024 / 1e6
		}
	}
	b.Fatalf("no %s", field)
	return 0
}
