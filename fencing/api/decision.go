package api

import "time"

// GateResult is the result of one gate of the policy, such as the limit on concurrent fences.
type GateResult struct {
	Gate    string // such as Concurrency
	Verdict Verdict
	Reason  string        // empty if Verdict is Allow
	Message string        // has the finding and the limit
	After   time.Duration // until the gate may allow the fence, if nothing else changes; 0 if unknown
}

// Decision states whether a node may be fenced now.
type Decision struct {
	// Verdict, Reason, Message and After are those of the first gate that does not allow the fence.
	Verdict Verdict
	// Reason is a word in CamelCase, such as Storm, or Allowed if all gates allow the fence.
	// docs/fencing.md explains the reasons.
	Reason string
	// Message explains the reason to an administrator.
	Message string
	// After is the time from now until the gate may allow the fence, if nothing else changes. 0 if
	// unknown.
	After time.Duration
	// Gates has the results of all gates, in the order of evaluation.
	Gates []GateResult
}

// Verdict is the outcome of a Decision.
type Verdict string

// Verdicts. Only Allow lets a fence start, so the zero value allows nothing.
const (
	Allow Verdict = "Allow" // fence now
	Wait  Verdict = "Wait"  // fence later; After is known
	Hold  Verdict = "Hold"  // fence when something has changed
	Deny  Verdict = "Deny"  // end the fence: the node must not be fenced
)
