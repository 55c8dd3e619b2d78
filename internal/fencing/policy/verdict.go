package policy

import (
	"fmt"
	"time"
)

// Verdict is the result of a decision.
type Verdict int

const (
	// Hold delays the fence for an unknown time. It is the zero value, so that an empty decision
	// allows nothing.
	Hold Verdict = iota
	// Wait delays the fence for a known time, After.
	Wait
	// Deny ends the fence: the node must not be fenced.
	Deny
	// Allow lets the act start.
	Allow
)

// String returns the name of the constant.
func (v Verdict) String() string {
	switch v {
	case Hold:
		return "Hold"
	case Wait:
		return "Wait"
	case Deny:
		return "Deny"
	case Allow:
		return "Allow"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// Reason is the reason in one word, for conditions and metrics.
type Reason string

// All reasons, by the gates that give them.
const (
	ReasonAllowed       Reason = "Allowed"       // by no gate, as all allow the fence
	ReasonNodeGone      Reason = "NodeGone"      // GateIdentity
	ReasonSameMachine   Reason = "SameMachine"   // GateMachine; worth an alarm
	ReasonExcluded      Reason = "Excluded"      // GateSelection
	ReasonOwnHost       Reason = "OwnHost"       // GateOwnHost
	ReasonPaused        Reason = "Paused"        // GateAdmin
	ReasonSoonUnhealthy Reason = "SoonUnhealthy" // GateDuration: not failing for long enough
	ReasonStillReady    Reason = "StillReady"    // GateDuration: Ready nodes are not powered off
	// GateDuration: it may never have been Ready, or shows no Ready condition
	ReasonJoining            Reason = "Joining"
	ReasonFailing            Reason = "Failing"            // GateDuration: only nodes that work are commissioned
	ReasonNotConfigured      Reason = "NotConfigured"      // GateReadiness
	ReasonOwnPartition       Reason = "OwnPartition"       // GateOwnPartition
	ReasonStorageUnreachable Reason = "StorageUnreachable" // GateStorage
	ReasonStorm              Reason = "Storm"              // GateStorm
	ReasonZoneStorm          Reason = "ZoneStorm"          // GateZoneStorm
	ReasonCoolDown           Reason = "CoolDown"           // GateCoolDown
	ReasonQuorum             Reason = "Quorum"             // GateControlPlane
	ReasonRepeats            Reason = "Repeats"            // GateRepeats; worth an alarm
	ReasonNoReturn           Reason = "NoReturn"           // GateReturn; worth an alarm
	ReasonRate               Reason = "Rate"               // GateRate
	ReasonQueue              Reason = "Queue"              // GateConcurrency
)

// Gate is a question of a decision. Gates are evaluated in the order of the constants, and
// explained in the package documentation.
type Gate int

// All gates.
const (
	GateIdentity Gate = iota + 1
	GateMachine
	GateSelection
	GateOwnHost
	GateAdmin
	GateDuration
	GateReadiness
	GateOwnPartition
	GateStorage
	GateStorm
	GateZoneStorm
	GateCoolDown
	GateControlPlane
	GateRepeats
	GateReturn
	GateRate
	GateConcurrency
)

var gateNames = [...]string{
	GateIdentity: "Identity", GateMachine: "Machine", GateSelection: "Selection",
	GateOwnHost: "OwnHost", GateAdmin: "Admin",
	GateDuration:  "Duration",
	GateReadiness: "Readiness", GateOwnPartition: "OwnPartition", GateStorage: "Storage", GateStorm: "Storm",
	GateZoneStorm: "ZoneStorm", GateCoolDown: "CoolDown", GateControlPlane: "ControlPlane", GateRepeats: "Repeats",
	GateReturn: "Return", GateRate: "Rate", GateConcurrency: "Concurrency",
}

// String returns the name of the constant, without "Gate".
func (g Gate) String() string {
	if g >= GateIdentity && g <= GateConcurrency {
		return gateNames[g]
	}
	return fmt.Sprintf("Gate(%d)", int(g))
}

// GateResult is the result of one gate.
type GateResult struct {
	Gate    Gate
	Verdict Verdict
	// Reason is empty if Verdict is Allow.
	Reason Reason
	// Message has the finding and the limit, for an administrator.
	Message string
	// After is the time from now until this gate may allow the fence, if nothing else changes. 0 if
	// unknown.
	After time.Duration
}

// Decision is the result of all gates.
type Decision struct {
	// Verdict, Reason, Message and After are those of the first gate that does not allow the fence.
	Verdict Verdict
	Reason  Reason
	Message string
	After   time.Duration
	// All has the results of all gates, in order.
	All []GateResult
}
