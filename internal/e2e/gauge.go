package e2e

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// gaugePause is how long a gauge does nothing between two requests.
const gaugePause = 100 * time.Millisecond

// Gauge measures how slow the machine and the API server are while a test runs: bounds in real time
// are that much later. It sends one small write after the other.
type Gauge struct {
	mu      sync.Mutex
	begun   time.Time // of the write under way, by plan
	samples []sample
}

// sample is one write.
type sample struct {
	end  time.Time
	took time.Duration // since it should have begun
}

// NewGauge starts a gauge, which ends with the test.
func NewGauge(t testing.TB, cp *ControlPlane, namespace string) *Gauge {
	t.Helper()
	client, err := kubernetes.NewForConfig(cp.Admin())
	if err != nil {
		t.Fatal(err)
	}
	const name = "gauge"
	configMaps := client.CoreV1().ConfigMaps(namespace)
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	g := &Gauge{begun: time.Now()}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	running.Go(func() {
		for ctx.Err() == nil {
			// One that fails, as while there is no API server, has taken its time all the same.
			_, _ = configMaps.Patch(ctx, name, types.MergePatchType,
				[]byte(`{"data":{"at":"`+time.Now().Format(time.RFC3339Nano)+`"}}`), metav1.PatchOptions{})
			g.note()
			select {
			case <-ctx.Done():
			case <-time.After(gaugePause):
			}
		}
	})
	return g
}

// note notes the end of a write, and when the next one should begin.
func (g *Gauge) note() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.samples = append(g.samples, sample{now, now.Sub(g.begun)})
	g.begun = now.Add(gaugePause)
}

// Slack returns how much later than planned something may be that some writes and their events take
// part in and that has happened since a time: a second, and four times the slowest write since
// then.
func (g *Gauge) Slack(since time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	slowest := time.Since(g.begun)
	for _, s := range g.samples {
		if s.end.After(since) {
			slowest = max(slowest, s.took)
		}
	}
	return time.Second + 4*max(slowest, 0)
}
