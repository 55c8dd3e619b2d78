package fencing

import (
	"time"

	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Limits restrict when and how many nodes are fenced. A field that is 0 has its default.
type Limits struct {
	// NotReadyFor is how long a node must fail before it is fenced, unless its ConfigMap sets
	// not_ready_for. Default: 30 s.
	NotReadyFor time.Duration

	// StormPercent is the share of unhealthy nodes, in the cluster or in a zone, at which fencing
	// stops if at least two nodes are unhealthy. From 1 to 100. Default: 50.
	StormPercent int

	// CoolDown is how long the share must stay below StormPercent before fencing resumes. Default:
	// 5 min.
	CoolDown time.Duration

	// Observation is how long a new controller watches the nodes before it fences any. Default:
	// 40 s.
	Observation time.Duration

	// LeaseSilence is how long a node may leave its Lease unrenewed before the node counts as
	// unhealthy. It must be longer than the renewal interval of the kubelets, which is 10 s by
	// default, and at least 10 s. Default: 40 s.
	LeaseSilence time.Duration

	// APISilence is the maximum age of this process's last confirmed write. Set it to the lease
	// duration of the elector. Default: 15 s.
	APISilence time.Duration

	// MaxConcurrent is how many fences may switch devices at the same time. Default: 1.
	MaxConcurrent int

	// MaxStarts is how many fences may start within StartWindow. Default: 10 within an hour.
	MaxStarts   int
	StartWindow time.Duration

	// MaxRepeats is how often a node may be fenced within RepeatWindow. Default: 3 times within an
	// hour.
	MaxRepeats   int
	RepeatWindow time.Duration

	// PodsPerMinute limits how many pods are released per minute, over all fences, at an even pace
	// that begins with the first one. A new leader waits for one pod's share of a minute. Unused
	// shares are kept for 5 s, so a minute may have a twelfth and one pod more. Evictions do not
	// count, because disruption budgets limit them. Default: no limit.
	PodsPerMinute int

	// RequireStorage blocks all fences unless Config.StorageReachable reports true.
	RequireStorage bool

	// FenceReadyNodes lists the types of conditions for which a node loses its power even though it
	// is Ready. Default: none.
	FenceReadyNodes []string
}

func (l Limits) withDefaults() policy.Limits { return policy.Limits(l).WithDefaults() }
