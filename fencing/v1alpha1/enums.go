package v1alpha1

// Phase is the exact place of a fence in its flow.
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
	PhaseError      Phase = "Error"      // a step failed; the flow may start anew
	PhaseGivenUp    Phase = "GivenUp"    // the end: an admin is needed
	PhaseFinal      Phase = "Final"      // the end: the node works

	// PhaseCommissioning is the first phase of an incident that is not a fence: a node that works, and was drained, loses its power once, so that it is
	// known that its devices are its own. Restoring, Booting and Recovering follow.
	PhaseCommissioning Phase = "Commissioning"
)

// Ended says that nothing happens any more without a human, or the node itself.
func (p Phase) Ended() bool { return p == PhaseFinal || p == PhaseGivenUp }

// Step is a step of the flow as admins configure it.
//
// +kubebuilder:validation:Enum=Isolation;Power-Management;Recovery
type Step string

// The steps, in their order.
const (
	StepIsolation       Step = "Isolation"
	StepPowerManagement Step = "Power-Management"
	StepRecovery        Step = "Recovery"
)

// Stage is how far a step has come.
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

// WaitKind names what is waited for.
//
// +kubebuilder:validation:Enum=NotReadyFor;PowerWait;BootGrace;RestartDelay;Detach;Departure
type WaitKind string

// What is waited for; the times are configured.
const (
	WaitNotReadyFor  WaitKind = "NotReadyFor"
	WaitPower        WaitKind = "PowerWait"
	WaitBootGrace    WaitKind = "BootGrace"
	WaitRestartDelay WaitKind = "RestartDelay"
	WaitDetach       WaitKind = "Detach"
	WaitDeparture    WaitKind = "Departure" // of a node whose devices are tried
)

// Abort says why a fence entered Restoring.
//
// +kubebuilder:validation:Enum="";NodeReady;StopHold;StopRestore;GaveUp;NodeGone;Commission
type Abort string

// Why a fence entered Restoring, one by one.
const (
	AbortNone        Abort = ""            // not aborted: the workloads were released
	AbortNodeReady   Abort = "NodeReady"   // the node works again
	AbortStopHold    Abort = "StopHold"    // an admin: stop, and leave everything as it is
	AbortStopRestore Abort = "StopRestore" // an admin: stop, and switch on what we switched off
	AbortGaveUp      Abort = "GaveUp"      // out of tries, or a device contradicts itself
	AbortNodeGone    Abort = "NodeGone"    // the machine may be somebody else's now
	AbortCommission  Abort = "Commission"  // it was not a fence: the devices were tried, whatever has come of that
)

// DeviceState is what this incident did with a device.
//
// +kubebuilder:validation:Enum="";OffIntent;SeenOn;Off;OnIntent;On;LeftOff
type DeviceState string

// The states of a device within an incident.
const (
	DeviceUntouched DeviceState = ""
	DeviceOffIntent DeviceState = "OffIntent" // a command to switch it off may be on its way
	DeviceSeenOn    DeviceState = "SeenOn"    // the command is spent: read on after it
	DeviceOff       DeviceState = "Off"       // read off after the command
	DeviceOnIntent  DeviceState = "OnIntent"  // a command to switch it on may be on its way
	DeviceOn        DeviceState = "On"        // read on again
	DeviceLeftOff   DeviceState = "LeftOff"   // could not, or must not, be switched on again
)

// OpAction is a command to a device.
//
// +kubebuilder:validation:Enum=off;on
type OpAction string

// The commands. There is no reboot: what is switched off is proved off before it is switched on.
const (
	ActionOff OpAction = "off"
	ActionOn  OpAction = "on"
)

// Power is what a device says of its plug.
//
// +kubebuilder:validation:Enum=on;off;unknown
type Power string

// What a device says of its plug, one by one.
const (
	PowerOn      Power = "on"
	PowerOff     Power = "off"
	PowerUnknown Power = "unknown"
)

// EvidenceSource says who gave a proof.
//
// +kubebuilder:validation:Enum=agent;manual;kdump
type EvidenceSource string

// Who gave a proof.
const (
	SourceAgent  EvidenceSource = "agent"
	SourceManual EvidenceSource = "manual"
	SourceKdump  EvidenceSource = "kdump"
)

// Released says how far the release of workloads has come.
//
// +kubebuilder:validation:Enum="";Begun;Done
type Released string

// How far the release has come.
const (
	ReleasedNo    Released = ""
	ReleasedBegun Released = "Begun"
	ReleasedDone  Released = "Done"
)

// TaintOwner says who put a taint on a node.
//
// +kubebuilder:validation:Enum="";Ours;Foreign
type TaintOwner string

// Whose taint it is.
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

// Annotations by which admins speak to a fence. Numbers must equal the status's incident, so that one that was left
// behind cannot act on the next incident.
const (
	// AnnotationStop ends the fence: "hold" (or "true") leaves every device as it is, "restore" switches on again what
	// the fence switched off.
	AnnotationStop = "fencing.bellwether.dev/stop"
	// AnnotationPaused, "true", keeps the fence from doing anything more; a command that was sent is still followed up.
	AnnotationPaused = "fencing.bellwether.dev/paused"
	// AnnotationConfirmOff, an incident's number, confirms that the machine is without power. It is believed.
	AnnotationConfirmOff = "fencing.bellwether.dev/confirm-off"
	// AnnotationRestart, an incident's number, starts a fence that was given up, or held before it has switched anything, anew, as the next
	// incident. It is then not held for Repeats.
	AnnotationRestart = "fencing.bellwether.dev/restart"
	// AnnotationCommission asks for the devices of a node to be tried, see [PhaseCommissioning]. Its value is the node's boot ID, perhaps followed by a slash
	// and something that tells it from an earlier one: so it cannot act twice, for after it there is another boot ID. On a Node it is for admins; on
	// a NodeFence it is how a controller begins one, in the same request.
	AnnotationCommission = "fencing.bellwether.dev/commission"
	// AnnotationCommissioned, on a Node, says which devices were proved to be the node's. Only controllers write it.
	AnnotationCommissioned = "fencing.bellwether.dev/commissioned"
	// AnnotationSeenOn, on a Node, says which of its devices were read on while it worked, and of which machine and boot that was. Only controllers write it.
	AnnotationSeenOn = "fencing.bellwether.dev/seen-on"
	// LabelProvider, on a Node, has a hash of the provider ID with which a controller has seen it first. Only
	// controllers write it: by its domain a kubelet may not, where the API server restricts them to their own
	// Nodes (NodeRestriction).
	LabelProvider = "fencing.bellwether.node-restriction.kubernetes.io/provider-id"
	// TaintFenced is the key of the taint that keeps new pods off a fenced node. Its effect is NoSchedule, its value the
	// incident.
	TaintFenced = Group + "/fenced"
	// Finalizer keeps a NodeFence until what it switched off is switched on again, or the fence has ended.
	Finalizer = "fencing.bellwether.dev/restore"
)
