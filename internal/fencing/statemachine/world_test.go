package statemachine

import (
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// The record as an index: phases, reasons of an abort and states of a device in the order of their
// constants.
var (
	phases = []v1alpha1.Phase{
		"", v1alpha1.PhaseDetected, v1alpha1.PhaseIsolating, v1alpha1.PhaseIsolated,
		v1alpha1.PhasePowering, v1alpha1.PhaseVerifying, v1alpha1.PhaseReleasing, v1alpha1.PhaseRestoring,
		v1alpha1.PhaseBooting, v1alpha1.PhaseRecovering, v1alpha1.PhaseError, v1alpha1.PhaseGivenUp,
		v1alpha1.PhaseFinal,
	}
	aborts = []v1alpha1.Abort{
		v1alpha1.AbortNone, v1alpha1.AbortNodeReady, v1alpha1.AbortStopHold,
		v1alpha1.AbortStopRestore, v1alpha1.AbortGaveUp, v1alpha1.AbortNodeGone,
	}
	states = []v1alpha1.DeviceState{
		v1alpha1.DeviceUntouched, v1alpha1.DeviceOffIntent, v1alpha1.DeviceSeenOn,
		v1alpha1.DeviceOff, v1alpha1.DeviceOnIntent, v1alpha1.DeviceOn, v1alpha1.DeviceLeftOff,
	}
	release = []v1alpha1.Released{v1alpha1.ReleasedNo, v1alpha1.ReleasedBegun, v1alpha1.ReleasedDone}
	waits   = map[v1alpha1.Phase]v1alpha1.WaitKind{
		v1alpha1.PhaseDetected: v1alpha1.WaitNotReadyFor,
		v1alpha1.PhaseIsolated: v1alpha1.WaitPower, v1alpha1.PhaseReleasing: v1alpha1.WaitDetach,
		v1alpha1.PhaseBooting: v1alpha1.WaitBootGrace, v1alpha1.PhaseError: v1alpha1.WaitRestartDelay,
	}
)

const (
	phNew uint8 = iota
	phDetected
	phIsolating
	phIsolated
	phPowering
	phVerifying
	phReleasing
	phRestoring
	phBooting
	phRecovering
	phError
	phGivenUp
	phFinal
)

const (
	abNone uint8 = iota
	abReady
	abHold
	abRestore
	abGaveUp
	abGone
)

const (
	dvNone uint8 = iota
	dvOffIntent
	dvSeenOn
	dvOff
	dvOnIntent
	dvOn
	dvLeftOff
)

// What an annotation of an admin asks for.
const (
	reqNone uint8 = iota
	reqHold
	reqRestore
	reqConfirm
)

// A node, as it is or was looked at.
const (
	ndNone uint8 = iota
	ndNotReady
	ndReady
	ndGone
)

// What is known of a device: the answer, and whether it is of just now.
const (
	rdNone uint8 = iota
	rdOn
	rdUnknown
	rdOff      // once, just now
	rdOffOld   // once, some time ago
	rdTwice    // twice, just now
	rdTwiceOld // twice, some time ago
	rdUnknownOld
)

// A command that has left a process which does not know of it any more.
const (
	pendNone uint8 = iota
	pendOff
	pendOn
)

// What has come of the kernel of the machine, while it has power.
const (
	kernelRuns uint8 = iota
	kernelDumps
	kernelRestarts // the dump is written
)

// How old the last message of a dump is that this process has had.
const (
	heardNone uint8 = iota
	heardNow
	heardLately // too long ago for a release, not for the dump to go on
)

// Parts of the release that this process has done.
const (
	partTainted uint8 = 1 << iota
	partDeleted
	partDetached
	partUntainted
	partFreed   // and the wait after it is over
	partSettled // the wait after the deletion of the pods is over
)

// plug is the record of one device, and what is true of it.
type plug struct {
	State, Tries, Restores uint8
	Touched, SeenOff       bool
	FoundOff               bool

	Called        bool  // by this process
	Quiet         uint8 // how long ago that was: 0 just now, 1 longer than it is polled for, 2 settled
	Read          uint8
	On            bool  // the truth
	Pending       uint8 // a command that is not waited for
	Effects       uint8 // commands of ours that took the power, in this incident
	Sent, ReadOn  bool  // an off was sent; it read on since
	ExtOn, ExtNow bool  // somebody else switched it on: in this incident; since this process has read it
	RC            bool  // mutation: it has answered "success"
}

// lease is what is known of the renewals of the node's Lease.
type lease struct {
	Based, Renewed bool
	Maybe          bool // it may have been renewed since the look that others are compared with
}

// settled says that no command can be under way to it any more.
func (p *plug) settled(since uint8) bool { return p.Called && p.Quiet == 2 || !p.Called && since == 2 }

// State is a vertex of the exploration: the record, the memory of the controller's process, and the
// world.
//
// It stands for all records, memories and clocks that differ in nothing the decisions compare.
// Times are compared only with limits, each by itself. So only the side of the limit counts: a wait
// in the record is running or over; a look, a reading, is of just now or older than every limit (in
// between it is as one of the two); the last command is younger than the poll, or the settling, or
// older. Numbers of operations are only ever compared for being the same. Evidence is never read,
// but for that of an admin; conditions are not, but for Paused. TestAbstractionLosesNothing walks
// with records and memories as they are, and finds the same decisions.
type State struct {
	// The record.
	Phase, Abort, Incident, Restarts, Level, Retries uint8
	Wait                                             uint8 // 0 none, 1 running, 2 over
	Released, DumpReleased                           uint8
	Tainted, Fenced                                  bool // the taints, as the record has them
	Verified, Manual, Held, SaidPaused, Finalizer    bool
	Returned                                         bool // the condition
	Plugs                                            [2]plug

	// Annotations, and as the controller has read them.
	Request, SeenRequest                 uint8
	Pause, SeenPause, Restart, SeenAgain bool
	Stale                                bool // the record was written by others since

	// The controller's process.
	Up              bool
	Look            uint8
	LookOld         bool
	Called, Read    lease // since the last call, and since the last reading
	Unsent, Calling uint8 // 1 + index of the device
	CallOn          bool
	Since           uint8 // as Quiet, of the process
	Methods, Parts  uint8
	Heard           uint8
	Early           bool // that was before this incident
	Young           bool // it began not long ago, and the one before it has had messages

	// The world.
	Node                        uint8
	Fresh                       bool // the node really reports
	Hold                        bool // the policy does not allow
	OutOfService, Taint         bool // what is really on the node
	Unschedulable, AdminCordons bool
	OurCordon                   bool // mutation
	Acked                       bool // the stop was acknowledged
	ConfirmMade                 bool
	HeardBefore                 bool  // mutation
	Crashes, Faults, Flaps      uint8 // budgets that are left
	Admins, Externals, Dumps    uint8
	Kernel                      uint8
}
