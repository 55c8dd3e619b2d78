package devices_test

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// The machine is cut off from its storage, the pod that uses it may go; the machine loses its
// power, all pods may go; it gets its power back, and its storage when it works again.
func TestSeedExample(t *testing.T) {
	t.Parallel()
	s := newSeedSite(t)
	s.setting("power_wait=3s")
	boot := s.getNode().Status.NodeInfo.BootID
	p := s.start()
	s.checked(corev1.ConditionTrue)
	s.lose()
	s.eventually("the storage is out of reach", func() bool { return !s.fabric.On() })
	s.eventually("the pod that uses it is gone", func() bool { return s.pod(podStorage) == nil })
	s.reaches(v1alpha1.PhaseFinal)
	s.requireFencedOnce("fc", "eaton")
	fabric, power, pods := s.fabric.Changes(), s.plugs["eaton"].Changes(), map[string]time.Time{}
	for _, e := range s.releases() {
		if e.Verb == "delete" {
			pods[e.Name] = e.At
		}
	}
	require.Len(t, fabric, 2)
	require.Len(t, power, 2)
	require.Len(t, pods, 2)
	steps := []struct {
		what string
		at   time.Time
	}{
		{"fc-off", fabric[0].At},
		{"the pod with that storage goes", pods[podStorage]},
		{"eaton-off", power[0].At},
		{"the other pod goes", pods[podPlain]},
		{"eaton-on", power[1].At},
		{"fc-on", fabric[1].At},
	}
	for i, step := range steps {
		t.Logf("%6.2f s  %s", step.at.Sub(steps[0].at).Seconds(), step.what)
		if i > 0 {
			assert.True(t, step.at.After(steps[i-1].at), "%s comes before %s", step.what, steps[i-1].what)
		}
	}
	assert.GreaterOrEqual(t, power[0].At.Sub(fabric[0].At), 3*time.Second, "power_wait")
	assert.False(t, s.readySince().After(fabric[1].At), "storage comes before the node is Ready")
	assert.NotEqual(t, boot, s.getNode().Status.NodeInfo.BootID)
	s.stop(p)
}

// The first level is a BMC, which does not answer: both power distribution units take its place,
// and it is not told anything.
func TestDeadBMCThenPDUs(t *testing.T) {
	t.Parallel()
	s := newFallbackSite(t)
	p := s.start()
	s.checked(corev1.ConditionTrue)
	require.NoError(t, s.devices["ipmi"].Freeze())
	s.lose()
	s.reaches(v1alpha1.PhaseFinal)
	s.requireFencedOnce("pdu-a", "pdu-b")
	require.NoError(t, s.devices["ipmi"].Thaw())
	assert.Empty(t, s.plugs["bmc"].Commands())
	s.stop(p)
}

// The BMC acknowledges commands, and does nothing; and it hangs on the outlets of its machine, as
// most do. It has no power while they are off, and takes a while to start after that: power comes
// back in the order in which it can.
func TestStuckBMCThatHangsOnThePDUs(t *testing.T) {
	t.Parallel()
	s := newFallbackSite(t)
	var mu sync.Mutex
	var unpowered int
	var starting sync.WaitGroup
	t.Cleanup(starting.Wait)
	s.machine.Fed(func(powered bool) {
		if !powered {
			mu.Lock()
			unpowered++
			mu.Unlock()
			assert.NoError(t, s.devices["ipmi"].Power(false))
			return
		}
		starting.Go(func() {
			<-time.After(5 * time.Second)
			assert.NoError(t, s.devices["ipmi"].Power(true))
		})
	})
	p := s.start()
	s.checked(corev1.ConditionTrue)
	s.plugs["bmc"].Break(lab.Fault{Ignores: true})
	s.lose()
	s.eventually("both outlets are off", func() bool { return !s.plugs["pdu-a"].On() && !s.plugs["pdu-b"].On() })
	began := time.Now()
	s.eventually("they are on again", func() bool { return s.plugs["pdu-a"].On() && s.plugs["pdu-b"].On() })
	t.Logf("without power for %.1f s", time.Since(began).Seconds())
	assert.Less(t, time.Since(began), 2*time.Minute, "the BMC comes last: it could not be reached before")
	s.reaches(v1alpha1.PhaseFinal)
	t.Logf("it has ended %.1f s after the power was off", time.Since(began).Seconds())
	s.requireFencedOnce("bmc", "pdu-a", "pdu-b")
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, 1, unpowered)
	s.stop(p)
}

// newFallbackSite has a machine with a BMC, and two power supplies besides.
func newFallbackSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	bmc, err := s.lab.BMC(s.machine.Chassis())
	require.NoError(t, err)
	s.template("ipmi", bmc, nil)
	s.configure("mark-unschedulable", "mark-schedulable", []string{"bmc-off bmc-on", pduLevel},
		append(s.pdus(), s.device("bmc", "ipmi", "", s.machine.Chassis()))...)
	return s
}

// Five at a time ask for the machine to be fenced, and five controllers carry that out. Each of
// them believes that it alone leads.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	const at = 5
	s := newBMCSite(t)
	var controllers []*controller
	for range at {
		controllers = append(controllers, s.lead())
	}
	s.checked(corev1.ConditionTrue)
	s.lose()
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": v1alpha1.Kind().Kind,
		"metadata": map[string]any{"name": v1alpha1.Name(s.node)}, "node": s.node,
	})
	require.NoError(t, err)
	var requests sync.WaitGroup
	for range at {
		requests.Go(func() {
			var code int
			s.client.CoreV1().RESTClient().Post().AbsPath("/apis/" + v1alpha1.GroupVersion().String() +
				"/nodefences").Body(body).Do(t.Context()).StatusCode(&code)
			assert.Contains(t, []int{http.StatusCreated, http.StatusConflict}, code)
		})
	}
	requests.Wait()
	s.reaches(v1alpha1.PhaseFinal)
	s.requireFencedOnce("bmc")
	for _, c := range controllers {
		c.stop()
	}
}
