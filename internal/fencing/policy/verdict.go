package policy

import "github.com/bellwether-k8s/bellwether/fencing/api"

// Verdicts. Only Allow lets a fence start, so the zero value allows nothing.
const (
	Allow = api.Allow
	Wait  = api.Wait
	Hold  = api.Hold
	Deny  = api.Deny
)

type (
	// Decision states whether a node may be fenced now.
	Decision = api.Decision
	// GateResult is the result of one gate.
	GateResult = api.GateResult
	// Verdict is the outcome of a Decision.
	Verdict = api.Verdict
	// Limits restrict when and how many nodes are fenced.
	Limits = api.Limits
)

// All reasons, by the gates that give them.
const (
	ReasonAllowed       = "Allowed"       // by no gate, as all allow the fence
	ReasonNodeGone      = "NodeGone"      // GateIdentity
	ReasonSameMachine   = "SameMachine"   // GateMachine; worth an alarm
	ReasonExcluded      = "Excluded"      // GateSelection
	ReasonOwnHost       = "OwnHost"       // GateOwnHost
	ReasonPaused        = "Paused"        // GateAdmin
	ReasonSoonUnhealthy = "SoonUnhealthy" // GateDuration: not failing for long enough
	ReasonStillReady    = "StillReady"    // GateDuration: Ready nodes are not powered off
	// GateDuration: it may never have been Ready, or shows no Ready condition
	ReasonJoining            = "Joining"
	ReasonFailing            = "Failing"            // GateDuration: only nodes that work are commissioned
	ReasonNotConfigured      = "NotConfigured"      // GateReadiness
	ReasonOwnPartition       = "OwnPartition"       // GateOwnPartition
	ReasonStorageUnreachable = "StorageUnreachable" // GateStorage
	ReasonStorm              = "Storm"              // GateStorm
	ReasonZoneStorm          = "ZoneStorm"          // GateZoneStorm
	ReasonCoolDown           = "CoolDown"           // GateCoolDown
	ReasonQuorum             = "Quorum"             // GateControlPlane
	ReasonRepeats            = "Repeats"            // GateRepeats; worth an alarm
	ReasonNoReturn           = "NoReturn"           // GateReturn; worth an alarm
	ReasonRate               = "Rate"               // GateRate
	ReasonQueue              = "Queue"              // GateConcurrency
)

// Names of the gates, in the order in which they are evaluated. The package documentation explains
// them.
const (
	GateIdentity     = "Identity"
	GateMachine      = "Machine"
	GateSelection    = "Selection"
	GateOwnHost      = "OwnHost"
	GateAdmin        = "Admin"
	GateDuration     = "Duration"
	GateReadiness    = "Readiness"
	GateOwnPartition = "OwnPartition"
	GateStorage      = "Storage"
	GateStorm        = "Storm"
	GateZoneStorm    = "ZoneStorm"
	GateCoolDown     = "CoolDown"
	GateControlPlane = "ControlPlane"
	GateRepeats      = "Repeats"
	GateReturn       = "Return"
	GateRate         = "Rate"
	GateConcurrency  = "Concurrency"
)
