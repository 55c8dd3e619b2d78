package incident

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
	AbortNodeGone    Abort = "NodeGone"    // the machine may be somebody else's now
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
