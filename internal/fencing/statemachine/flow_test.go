package statemachine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/fencing/statemachine"
)

func golden(t *testing.T, c *cluster, want string) {
	t.Helper()
	assert.Equal(t, strings.TrimLeft(want, "\n"), c.transcript())
}

func TestFlowOfADeadNode(t *testing.T) {
	c := newCluster(t, bmc())
	c.volumes = 3
	c.phase(v1alpha1.PhaseFinal)
	golden(t, c, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s NodeIsolated: Isolated (Isolation/Done)
 5m30s PowerWaitOver: Powering (Power-Management/Running)
 5m30s OffIntent: Powering (Power-Management/Running)
 5m30s off bmc
 5m32s OffSeen: Powering (Power-Management/Running)
 5m32s AllOff: Verifying (Power-Management/Running)
 5m32s Verified: Releasing (Power-Management/Running)
 5m32s ReleaseBegun: Releasing (Power-Management/Running)
 5m32s DeletePods
 5m32s Taint
 5m32s PodsDeleted: Releasing (Power-Management/Running)
 5m32s AwaitDetach
 5m33s AwaitDetach
 5m34s AwaitDetach
 5m35s AwaitDetach
 5m35s Untaint
 5m37s WorkloadsFreed: Restoring (Power-Management/Running)
  6m1s OnIntent: Restoring (Power-Management/Running)
  6m1s on bmc
 6m32s OnSeen: Restoring (Power-Management/Running)
 6m32s PowerRestored: Booting (Power-Management/Done)
  7m2s NodeBack: Recovering (Recovery/Running)
 7m12s mark-schedulable
 7m12s Recovered: Final (Recovery/Final)
`)
}

func TestFlowOfANodeThatReturns(t *testing.T) {
	c := newCluster(t, bmc())
	c.phase(v1alpha1.PhaseIsolated)
	c.pass(time.Minute)
	c.back()
	c.phase(v1alpha1.PhaseFinal)
	golden(t, c, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s NodeIsolated: Isolated (Isolation/Done)
 1m30s Returned: Recovering (Recovery/Running)
 1m40s mark-schedulable
 1m40s Recovered: Final (Recovery/Final)
`)
}

func TestFlowWithASecondLevel(t *testing.T) {
	c := newCluster(t,
		planOf(nodeplan.Level{feed("bmc")}, nodeplan.Level{feed("pdu a"), feed("pdu b")}))
	c.until(statemachine.OffIntent) // a device that did not answer before would not be commanded
	c.plugs["bmc"].silent, c.plugs["bmc"].deaf = true, true
	c.until(statemachine.WorkloadsFreed)
	c.plugs["bmc"].silent = false
	c.phase(v1alpha1.PhaseFinal)
	golden(t, c, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s NodeIsolated: Isolated (Isolation/Done)
 5m30s PowerWaitOver: Powering (Power-Management/Running)
 5m30s OffIntent: Powering (Power-Management/Running)
 5m30s off bmc
 5m34s NextLevel: Powering (Power-Management/Running)
 5m34s OffIntent: Powering (Power-Management/Running)
 5m34s off pdu a
 5m35s OffSeen: Powering (Power-Management/Running)
 5m36s OffIntent: Powering (Power-Management/Running)
 5m36s off pdu b
 5m37s OffSeen: Powering (Power-Management/Running)
 5m37s AllOff: Verifying (Power-Management/Running)
 5m38s Verified: Releasing (Power-Management/Running)
 5m38s ReleaseBegun: Releasing (Power-Management/Running)
 5m38s DeletePods
 5m38s Taint
 5m38s PodsDeleted: Releasing (Power-Management/Running)
 5m38s AwaitDetach
 5m38s Untaint
 5m40s WorkloadsFreed: Restoring (Power-Management/Running)
  6m7s OnIntent: Restoring (Power-Management/Running)
  6m7s on pdu b
 6m38s OnSeen: Restoring (Power-Management/Running)
 6m38s OnIntent: Restoring (Power-Management/Running)
 6m38s on pdu a
  7m9s OnSeen: Restoring (Power-Management/Running)
  7m9s OnSeen: Restoring (Power-Management/Running)
  7m9s PowerRestored: Booting (Power-Management/Done)
 7m19s NodeBack: Recovering (Recovery/Running)
 7m24s mark-schedulable
 7m24s Recovered: Final (Recovery/Final)
`)
}

func TestFlowOfStorageThatIsCut(t *testing.T) {
	c := newCluster(t, storage())
	c.phase(v1alpha1.PhaseFinal)
	golden(t, c, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s OffIntent: Isolating (Isolation/Running)
   30s off port
   32s OffSeen: Isolating (Isolation/Running)
   32s StorageCut: Isolating (Isolation/Running)
   32s DeletePods using the storage of port
   32s StorageFreed: Isolating (Isolation/Running)
   32s NodeIsolated: Isolated (Isolation/Done)
 5m32s PowerWaitOver: Powering (Power-Management/Running)
 5m32s OffIntent: Powering (Power-Management/Running)
 5m32s off pdu
 5m34s OffSeen: Powering (Power-Management/Running)
 5m34s AllOff: Verifying (Power-Management/Running)
 5m34s Verified: Releasing (Power-Management/Running)
 5m34s ReleaseBegun: Releasing (Power-Management/Running)
 5m34s DeletePods
 5m34s Taint
 5m34s PodsDeleted: Releasing (Power-Management/Running)
 5m34s AwaitDetach
 5m34s Untaint
 5m36s WorkloadsFreed: Restoring (Power-Management/Running)
  6m3s OnIntent: Restoring (Power-Management/Running)
  6m3s on pdu
 6m34s OnSeen: Restoring (Power-Management/Running)
 6m34s PowerRestored: Booting (Power-Management/Done)
  7m4s NodeBack: Recovering (Recovery/Running)
 7m14s OnIntent: Recovering (Recovery/Running)
 7m14s on port
 7m46s OnSeen: Recovering (Recovery/Running)
 7m46s mark-schedulable
 7m46s Recovered: Final (Recovery/Final)
`)
}

func TestFlowOfAMachineThatDoesNotBoot(t *testing.T) {
	c := newCluster(t, bmc())
	c.boots = false
	c.phase(v1alpha1.PhaseGivenUp)
	golden(t, c, `
    0s Begun: Detected (Isolation/New)
   30s NotReadyTimeout: Isolating (Isolation/Running)
   30s mark-unschedulable
   30s NodeIsolated: Isolated (Isolation/Done)
 5m30s PowerWaitOver: Powering (Power-Management/Running)
 5m30s OffIntent: Powering (Power-Management/Running)
 5m30s off bmc
 5m32s OffSeen: Powering (Power-Management/Running)
 5m32s AllOff: Verifying (Power-Management/Running)
 5m32s Verified: Releasing (Power-Management/Running)
 5m32s ReleaseBegun: Releasing (Power-Management/Running)
 5m32s DeletePods
 5m32s Taint
 5m32s PodsDeleted: Releasing (Power-Management/Running)
 5m32s AwaitDetach
 5m32s Untaint
 5m34s WorkloadsFreed: Restoring (Power-Management/Running)
  6m1s OnIntent: Restoring (Power-Management/Running)
  6m1s on bmc
 6m32s OnSeen: Restoring (Power-Management/Running)
 6m32s PowerRestored: Booting (Power-Management/Done)
16m32s BootGraceOver: Error (Power-Management/Error)
 17m2s FlowRestarted: Detected (Isolation/New)
 17m2s NotReadyTimeout: Isolating (Isolation/Running)
 17m2s mark-unschedulable
 17m2s NodeIsolated: Isolated (Isolation/Done)
 22m2s AlreadyReleased: Restoring (Power-Management/Running)
 22m2s OnSeen: Restoring (Power-Management/Running)
 22m2s PowerRestored: Booting (Power-Management/Done)
 32m3s BootGraceOver: Error (Power-Management/Error)
32m33s RestartsUsedUp: Restoring (Power-Management/Running)
32m33s Ended: GivenUp (Power-Management/Error)
`)
}
