package devices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// newVMSite has a virtual machine of a vCenter.
func newVMSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	vcenter, err := s.lab.VCenter(map[string]*lab.Plug{"vm": s.machine.Chassis(), "other": lab.NewPlug(nil)})
	require.NoError(t, err)
	s.template("vcenter", vcenter, nil)
	s.configure("mark-unschedulable", "mark-schedulable", []string{"vm-off vm-on"},
		s.device("vm", "vcenter", "vm", s.machine.Chassis()))
	return s
}

// An admin suspends a virtual machine, and later resumes it. Its agent reads off meanwhile, and would send no
// command.
func TestSuspendedMachine(t *testing.T) {
	t.Parallel()
	s := newVMSite(t)
	p := s.start()
	s.checked(corev1.ConditionTrue)
	s.machine.Chassis().Suspend()
	s.lose()
	s.eventually("the fence waits for an admin", func() bool {
		f := s.record()
		return f != nil && f.Status.Hold != nil && f.Status.Hold.Reason == "OffUnclear"
	})
	t.Log(s.record().Status.Hold.Message)
	<-time.After(2 * settle)
	assert.NotNil(t, s.pod(podPlain))

	s.machine.Chassis().Resume()
	require.NoError(t, s.process.Resume())
	s.setReady(corev1.ConditionTrue)
	s.reaches(v1alpha1.PhaseFinal)
	assert.NotNil(t, s.pod(podPlain))
	assert.Empty(t, s.machine.Chassis().Commands())
	s.stop(p)
}

func TestLostVirtualMachine(t *testing.T) {
	t.Parallel()
	s := newVMSite(t)
	p := s.start()
	s.checked(corev1.ConditionTrue)
	s.lose()
	s.reaches(v1alpha1.PhaseFinal)
	s.requireFencedOnce("vm")
	s.stop(p)
}
