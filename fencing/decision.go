package fencing

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

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

// Verdicts.
const (
	Allow Verdict = "Allow" // fence now
	Wait  Verdict = "Wait"  // fence later; After is known
	Hold  Verdict = "Hold"  // fence when something has changed
	Deny  Verdict = "Deny"  // end the fence: the node must not be fenced
)

// GateResult is the result of one gate of the policy, such as the limit on concurrent fences.
type GateResult struct {
	Gate    string // such as Concurrency
	Verdict Verdict
	Reason  string // empty if Verdict is Allow
	Message string
	After   time.Duration // 0 if unknown
}

func newDecision(d policy.Decision) Decision {
	public := Decision{
		Verdict: Verdict(d.Verdict.String()), Reason: string(d.Reason), Message: d.Message, After: d.After,
		Gates: make([]GateResult, len(d.All)),
	}
	for i, r := range d.All {
		public.Gates[i] = GateResult{
			Gate: r.Gate.String(), Verdict: Verdict(r.Verdict.String()),
			Reason: string(r.Reason), Message: r.Message, After: r.After,
		}
	}
	return public
}
