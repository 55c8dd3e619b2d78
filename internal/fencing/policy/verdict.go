package policy

import (
	"fmt"
	"time"
)

// Verdict is what may be done about a node.
type Verdict int

const (
	// Hold keeps the fence and does nothing now. It is not known when that will change. The zero
	// value, so that a decision that nobody has made allows nothing.
	Hold Verdict = iota
	// Wait keeps the fence and does nothing now; After says when to ask again.
	Wait
	// Deny ends the fence: it is about a node that is not to be fenced.
	Deny
	// Allow lets the act begin that was asked about.
	Allow
)

// String is the name of the constant.
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

// Reason says why, in one word, for conditions and metrics.
type Reason string

// All reasons, by the gates that give them.
const (
	ReasonAllowed            Reason = "Allowed"            // by no gate: all let pass
	ReasonNodeGone           Reason = "NodeGone"           // GateIdentity
	ReasonExcluded           Reason = "Excluded"           // GateSelection
	ReasonOwnHost            Reason = "OwnHost"            // GateOwnHost
	ReasonPaused             Reason = "Paused"             // GateAdmin
	ReasonSoonUnhealthy      Reason = "SoonUnhealthy"      // GateDuration: not failing for long enough
	ReasonStillReady         Reason = "StillReady"         // GateDuration: Ready nodes are not powered off
	ReasonJoining            Reason = "Joining"            // GateDuration: it may never have been Ready, or shows no Ready condition
	ReasonFailing            Reason = "Failing"            // GateDuration: only nodes that work are commissioned
	ReasonNotConfigured      Reason = "NotConfigured"      // GateReadiness
	ReasonOwnPartition       Reason = "OwnPartition"       // GateOwnPartition
	ReasonStorageUnreachable Reason = "StorageUnreachable" // GateStorage
	ReasonStorm              Reason = "Storm"              // GateStorm
	ReasonZoneStorm          Reason = "ZoneStorm"          // GateZoneStorm
	ReasonCoolDown           Reason = "CoolDown"           // GateCoolDown
	ReasonQuorum             Reason = "Quorum"             // GateControlPlane
	ReasonRepeats            Reason = "Repeats"            // GateRepeats; worth an alarm
	ReasonRate               Reason = "Rate"               // GateRate
	ReasonQueue              Reason = "Queue"              // GateConcurrency
)

// Gate is one of the questions that a decision consists of, in the order in which they are asked.
// The package documentation says what each is good for.
type Gate int

// All gates.
const (
	GateIdentity Gate = iota + 1
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
	GateRate
	GateConcurrency
)

var gateNames = [...]string{
	GateIdentity: "Identity", GateSelection: "Selection", GateOwnHost: "OwnHost", GateAdmin: "Admin", GateDuration: "Duration",
	GateReadiness: "Readiness", GateOwnPartition: "OwnPartition", GateStorage: "Storage", GateStorm: "Storm",
	GateZoneStorm: "ZoneStorm", GateCoolDown: "CoolDown", GateControlPlane: "ControlPlane", GateRepeats: "Repeats",
	GateRate: "Rate", GateConcurrency: "Concurrency",
}

// String is the name of the constant, without "Gate".
func (g Gate) String() string {
	if g >= GateIdentity && g <= GateConcurrency {
		return gateNames[g]
	}
	return fmt.Sprintf("Gate(%d)", int(g))
}

// GateResult is the answer of one gate.
type GateResult struct {
	Gate    Gate
	Verdict Verdict
	// Reason is empty if Verdict is Allow.
	Reason Reason
	// Message is for an administrator: what was found, and what the limit is.
	Message string
	// After is when this gate may let pass, from now, if nothing else changes. 0 if that is not
	// known.
	After time.Duration
}

// Decision is the answer of all gates.
type Decision struct {
	// Verdict, Reason, Message and After are those of the first gate that does not let pass.
	Verdict Verdict
	Reason  Reason
	Message string
	After   time.Duration
	// All has the result of each gate, in order: what else stands in the way.
	All []GateResult
}
