package fencing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// A limit of deletions is kept, and used.
func TestPodsPerMinute(t *testing.T) {
	const pods = 100
	for perMinute, takes := range map[int][2]time.Duration{
		30:   {3 * time.Minute, 4 * time.Minute},
		600:  {9 * time.Second, 20 * time.Second},
		6000: {time.Second, 7 * time.Second},
	} {
		t.Run(fmt.Sprint(perMinute), func(t *testing.T) {
			inWorld(t, 5, func(w *world) {
				breaches := w.referee()
				for i := range pods {
					w.pod(fmt.Sprintf("db-%d", i), "n1")
				}
				a := w.start("a", func(c *fencing.Config) { c.Limits.PodsPerMinute = perMinute })
				defer a.stop()
				wait(w.ctx, settled)
				w.cutOff("n1", true)
				w.ends("n1", v1alpha1.PhaseReleasing)
				took := w.eventually(time.Hour, "all pods are released", func() bool { return len(w.pods("n1")) == 0 })
				assert.GreaterOrEqual(t, took, takes[0])
				assert.LessOrEqual(t, took, takes[1])
				assert.Empty(t, breaches())
			})
		})
	}
}
