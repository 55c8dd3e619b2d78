package fencing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// TestRecordThatIsEditedByHand breaks a record in the midst of its fence, as the API server accepts
// it, and repairs it later. Meanwhile the fences of other nodes go on, also those of the next leader.
func TestRecordThatIsEditedByHand(t *testing.T) {
	for name, spoil := range variants(map[string]func(*v1alpha1.Status){
		"evidence without readings": func(s *v1alpha1.Status) {
			s.Evidence = []v1alpha1.Evidence{{
				Device: s.Devices[0].Device, Source: v1alpha1.SourceAgent, Readings: []v1alpha1.Reading{},
			}}
		},
		"an intent without its command": func(s *v1alpha1.Status) { s.Devices[0].Op = nil },
	}) {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 6, func(w *world) {
				breaches := w.referee()
				limits := func(c *fencing.Config) { c.Limits.MaxConcurrent = 2 }
				a := w.start("a", limits)
				w.pod("db-1", "n1")
				w.pod("db-2", "n2")
				w.pod("db-3", "n3")
				wait(w.ctx, settled)

				w.rack.Break("n1", fencingtest.Fault{Unreadable: true})
				w.cutOff("n1", true)
				w.eventually(5*time.Minute, "a command is recorded", func() bool {
					f := w.fence("n1")
					return f != nil && slices.ContainsFunc(f.Status.Devices,
						func(d v1alpha1.Device) bool { return d.State == v1alpha1.DeviceOffIntent })
				})
				var whole v1alpha1.Status
				w.edit("n1", func(s *v1alpha1.Status) {
					whole = *s.DeepCopy()
					spoil(s)
				})
				w.rack.Break("n1", fencingtest.Fault{})
				w.lose("n2")
				w.eventually(5*time.Minute, "n2 is fenced", func() bool { return len(w.pods("n2")) == 0 })
				w.ends("n2", v1alpha1.PhaseFinal)
				require.NotEmpty(t, w.pods("n1"), "nothing is proved by such a record")
				a.stop()

				b := w.start("b", limits)
				defer b.stop()
				wait(w.ctx, settled)
				w.lose("n3")
				w.eventually(5*time.Minute, "n3 is fenced", func() bool { return len(w.pods("n3")) == 0 })

				w.edit("n1", func(s *v1alpha1.Status) { *s = whole })
				w.eventually(5*time.Minute, "n1 is fenced", func() bool { return len(w.pods("n1")) == 0 })
				require.Empty(t, breaches())
			})
		})
	}
}

// edit changes the status of a record, as an admin does.
func (w *world) edit(node string, change func(*v1alpha1.Status)) {
	w.t.Helper()
	require.NoError(w.t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		f := w.fence(node)
		change(&f.Status)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f)
		require.NoError(w.t, err)
		_, err = w.fences.UpdateStatus(w.ctx, &unstructured.Unstructured{Object: object}, metav1.UpdateOptions{})
		return err
	}))
}
