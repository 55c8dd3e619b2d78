package v1alpha1

// Phase is the exact state of a fence.
//
// +kubebuilder:validation:Enum=Detected;Isolating;Isolated;Powering;Verifying;Releasing;Restoring;Booting;Recovering;Error;GivenUp;Final;Commissioning
type Phase string

// The phases of a fence, in the order of its flow.
const (
	PhaseDetected   Phase = "Detected"   // failing, not yet for long enough
	PhaseIsolating  Phase = "Isolating"  // the isolation step runs
	PhaseIsolated   Phase = "Isolated"   // isolated; the wait before power is touched
	PhasePowering   Phase = "Powering"   // power is being switched off
	PhaseVerifying  Phase = "Verifying"  // every feed is read once more
	PhaseReleasing  Phase = "Releasing"  // the machine is without power: its workloads are released
	PhaseRestoring  Phase = "Restoring"  // what was switched off is switched on
	PhaseBooting    Phase = "Booting"    // waiting for the node to report
	PhaseRecovering Phase = "Recovering" // the recovery step runs
	PhaseError      Phase = "Error"      // a step failed; the flow may restart
	PhaseGivenUp    Phase = "GivenUp"    // the end: an admin is needed
	PhaseFinal      Phase = "Final"      // the end: the node works

	// PhaseCommissioning is the first phase of an incident that is not a fence: a working, drained
	// node loses its power once, to prove that its devices are its own. Restoring, Booting and
	// Recovering follow.
	PhaseCommissioning Phase = "Commissioning"
)

// Ended reports whether the fence has ended. It continues only if a human or the node itself does
// something.
func (p Phase) Ended() bool { return p == PhaseFinal || p == PhaseGivenUp }

// EvidenceSource is the source of a proof.
//
// +kubebuilder:validation:Enum=agent;manual;kdump
type EvidenceSource string

// Sources of proofs.
const (
	SourceAgent  EvidenceSource = "agent"
	SourceManual EvidenceSource = "manual"
	SourceKdump  EvidenceSource = "kdump"
)

// Step is a step of the flow, as admins configure it.
//
// +kubebuilder:validation:Enum=Isolation;Power-Management;Recovery
type Step string

// The steps, in their order.
const (
	StepIsolation       Step = "Isolation"
	StepPowerManagement Step = "Power-Management"
	StepRecovery        Step = "Recovery"
)

// Stage is the progress of a step.
//
// +kubebuilder:validation:Enum=New;Running;Done;Final;Error
type Stage string

// The stages of a step.
const (
	StageNew     Stage = "New"
	StageRunning Stage = "Running"
	StageDone    Stage = "Done"
	StageFinal   Stage = "Final"
	StageError   Stage = "Error"
)

// WaitKind names a wait.
//
// +kubebuilder:validation:Enum=NotReadyFor;PowerWait;BootGrace;RestartDelay;Detach;Departure
type WaitKind string

// Waits. Their durations are configured.
const (
	WaitNotReadyFor  WaitKind = "NotReadyFor"
	WaitPower        WaitKind = "PowerWait"
	WaitBootGrace    WaitKind = "BootGrace"
	WaitRestartDelay WaitKind = "RestartDelay"
	WaitDetach       WaitKind = "Detach"
	WaitDeparture    WaitKind = "Departure" // of a node whose devices are tried
)

// Abort is the reason why a fence entered Restoring.
//
// +kubebuilder:validation:Enum="";NodeReady;StopHold;StopRestore;GaveUp;NodeGone;Commission
type Abort string

// Reasons to enter Restoring.
const (
	AbortNone        Abort = ""            // not aborted: the workloads were released
	AbortNodeReady   Abort = "NodeReady"   // the node works again
	AbortStopHold    Abort = "StopHold"    // an admin: stop, and leave everything as it is
	AbortStopRestore Abort = "StopRestore" // an admin: stop, and switch on what we switched off
	AbortGaveUp      Abort = "GaveUp"      // out of tries, or a device contradicts itself
	AbortNodeGone    Abort = "NodeGone"    // the machine may have another owner now
	AbortCommission  Abort = "Commission"  // it was not a fence: the devices were tried, whatever has come of that
)

// DeviceState is what this incident has done with a device.
//
// +kubebuilder:validation:Enum="";OffIntent;SeenOn;Off;OnIntent;On;LeftOff
type DeviceState string

// States of a device within an incident.
const (
	DeviceUntouched DeviceState = ""
	DeviceOffIntent DeviceState = "OffIntent" // a command to switch it off may be on its way
	DeviceSeenOn    DeviceState = "SeenOn"    // the command is spent: read on after it
	DeviceOff       DeviceState = "Off"       // read off after the command
	DeviceOnIntent  DeviceState = "OnIntent"  // a command to switch it on may be on its way
	DeviceOn        DeviceState = "On"        // read on again
	DeviceLeftOff   DeviceState = "LeftOff"   // could not, or must not, be switched on again
)

// Released is the progress of a release of workloads.
//
// +kubebuilder:validation:Enum="";Begun;Done
type Released string

// Progress of a release.
const (
	ReleasedNo    Released = ""
	ReleasedBegun Released = "Begun"
	ReleasedDone  Released = "Done"
)

// TaintOwner is the owner of a taint.
//
// +kubebuilder:validation:Enum="";Ours;Foreign
type TaintOwner string

// Owners of a taint.
const (
	TaintNone    TaintOwner = ""
	TaintOurs    TaintOwner = "Ours"
	TaintForeign TaintOwner = "Foreign"
)

// Types of conditions of a NodeFence.
const (
	ConditionComplete      = "Complete"      // the fence has ended
	ConditionPoweredOff    = "PoweredOff"    // names the plugs that are off; Unknown while one was not read
	ConditionReleased      = "Released"      // the workloads are free
	ConditionPaused        = "Paused"        // an admin paused it
	ConditionStopped       = "Stopped"       // an admin's stop was carried out: no command is on its way any more
	ConditionDeviceSuspect = "DeviceSuspect" // a device reads off while the node still reports
	ConditionReturned      = "Returned"      // the node has worked since the fence was given up
	ConditionDenied        = "Denied"        // the policy has ended the fence
)

// Annotations for admins. A number must equal the incident in the status, so that an annotation
// that was left behind has no effect on the next incident.
const (
	// AnnotationStop ends the fence. "hold" and "true" leave every device as it is; "restore"
	// switches on what the fence has switched off.
	AnnotationStop = "fencing.bellwether.dev/stop"
	// AnnotationPaused pauses the fence if it is "true". The effect of a sent command is still
	// read.
	AnnotationPaused = "fencing.bellwether.dev/paused"
	// AnnotationConfirmOff confirms that the machine is off. Its value is the number of the
	// incident. The controller does not verify it.
	AnnotationConfirmOff = "fencing.bellwether.dev/confirm-off"
	// AnnotationRestart restarts a fence as the next incident. The fence must have been given up,
	// or be blocked without having switched a device. Its value is the number of the incident. The
	// new incident is not blocked for Repeats.
	AnnotationRestart = "fencing.bellwether.dev/restart"
	// AnnotationCommission requests a commission of a node; see [PhaseCommissioning]. Its value is
	// the node's boot ID, optionally followed by a slash and a text that distinguishes it from an
	// earlier request. It has no second effect, as the boot ID changes. Admins set it on a Node.
	// The controller sets it on a NodeFence, in the request that creates it.
	AnnotationCommission = "fencing.bellwether.dev/commission"
	// AnnotationCommissioned, on a Node, has the devices that were proved to be the node's. Only
	// controllers write it.
	AnnotationCommissioned = "fencing.bellwether.dev/commissioned"
	// AnnotationSeenOn, on a Node, has the devices that were read on while the node worked, with
	// the machine and the boot. Only controllers write it.
	AnnotationSeenOn = "fencing.bellwether.dev/seen-on"
	// LabelProvider, on a Node, has a hash of the first provider ID that a controller has seen.
	// Only controllers write it. A kubelet may not, because of its domain, where NodeRestriction is
	// enabled.
	LabelProvider = "fencing.bellwether.node-restriction.kubernetes.io/provider-id"
	// TaintFenced is the key of the taint that keeps new pods off a fenced node. Its effect is
	// NoSchedule, its value the incident.
	TaintFenced = Group + "/fenced"
	// Finalizer keeps a NodeFence until its devices are switched on again or the fence has ended.
	Finalizer = "fencing.bellwether.dev/restore"
)
