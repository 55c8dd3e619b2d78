package devices_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// aborts are how a fence ends early.
var aborts = map[string]func(s *site){
	"the node returns": func(s *site) {
		if s.machine.On() {
			_ = s.process.Resume() // it may lose its power at this very moment
			s.setReady(corev1.ConditionTrue)
		}
	},
	"an admin stops it": func(s *site) {
		_, err := s.fences.Patch(s.t.Context(), v1alpha1.Name(s.node), types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"restore"}}}`, v1alpha1.AnnotationStop),
			metav1.PatchOptions{})
		require.NoError(s.t, err)
	},
}

// A fence is ended at a random moment around the command to switch off. From its end on nothing is
// switched any more, and the machine runs. When soaking, 200 times.
func TestAborts(t *testing.T) {
	t.Parallel()
	rounds := 1
	if soaking() {
		rounds = 20
	}
	var tried, early, late atomic.Int32
	t.Run("all", func(t *testing.T) {
		for name, abort := range aborts {
			lanes := 1
			if soaking() {
				lanes = 5
			}
			for lane := range lanes {
				t.Run(fmt.Sprintf("%s/%d", name, lane+1), func(t *testing.T) {
					t.Parallel()
					s := newBMCSite(t)
					// a machine that was stopped in time does not come back by itself
					s.setting("power_wait=0s", "boot_grace=20s")
					p := s.start()
					s.checked(corev1.ConditionTrue)
					for range rounds {
						tried.Add(1)
						spared, after := s.aborted(abort)
						if spared {
							early.Add(1)
						}
						late.Add(int32(after))
					}
					s.stop(p)
				})
			}
		}
	})
	assert.Zero(t, late.Load(), "commands after the end of a fence")
	if soaking() {
		fmt.Printf("soak: %s: %d aborts, %d before the machine lost its power, %d late power events\n", t.Name(),
			tried.Load(), early.Load(), late.Load())
	}
}

// aborted has the machine fail, and the fence of it aborted. It says whether the machine kept its
// power, and how many commands came when all was over.
func (s *site) aborted(abort func(*site)) (spared bool, late int) {
	s.t.Helper()
	plug := s.plugs["bmc"]
	offs, changes := count(plug, false), len(s.machine.Changes())
	s.lose()
	s.eventually("the command is under way, or was", func() bool {
		phase := s.phase()
		return phase != "" && !slices.Contains([]v1alpha1.Phase{
			v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating,
			v1alpha1.PhaseIsolated,
		}, phase)
	})
	<-time.After(rand.N(2 * time.Second)) // any moment has to do
	abort(s)
	version := ""
	s.eventually("the fence ends", func() bool {
		f := s.record()
		version = f.ResourceVersion
		return f.Status.Phase == v1alpha1.PhaseFinal || f.Status.Phase == v1alpha1.PhaseGivenUp &&
			meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionStopped)
	})
	ended := s.lastWrite(version)
	<-time.After(s.timeout + settle) // for as long as a command could be under way
	for _, c := range plug.Commands() {
		if c.At.After(ended) {
			late++
		}
	}
	assert.LessOrEqual(s.t, count(plug, false), offs+1, "%+v", plug.Commands())
	assert.True(s.t, s.machine.On())
	s.requireReleasesProved()
	spared = len(s.machine.Changes()) == changes
	if spared {
		assert.NotNil(s.t, s.pod(podPlain))
	}
	s.repair()
	return spared, late
}

// lastWrite is when the status of the machine's record was written last, until it had this version.
func (s *site) lastWrite(version string) (at time.Time) {
	s.t.Helper()
	s.eventually("the audit log has the write of the record", func() bool {
		// it may have it later than the API server has the record
		events, err := shared.Audit()
		require.NoError(s.t, err)
		for _, e := range events {
			if e.Resource != "nodefences" || e.Name != v1alpha1.Name(s.node) || !e.Write() || e.Code >= 300 {
				continue
			}
			if e.Subresource == "status" {
				at = e.Received
			}
			if e.ResourceVersion == version {
				return true
			}
		}
		return false
	})
	return at
}

// repair makes everything as it was before the machine failed.
func (s *site) repair() {
	s.t.Helper()
	require.NoError(s.t, s.process.Resume())
	s.eventually("the node is Ready", func() bool { return s.ready() })
	name := v1alpha1.Name(s.node)
	if err := s.fences.Delete(s.t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		require.NoError(s.t, err)
	}
	s.eventually("the record is gone", func() bool { return s.record() == nil })
	if s.pod(podPlain) == nil {
		s.run(podPlain)
	}
}
