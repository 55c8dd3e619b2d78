package api

import (
	"errors"
	"fmt"
	"slices"
	"time"
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

// WithDefaults returns l with defaults for fields that are 0.
func (l Limits) WithDefaults() Limits {
	set(&l.NotReadyFor, 30*time.Second)
	set(&l.StormPercent, 50)
	set(&l.CoolDown, 5*time.Minute)
	set(&l.Observation, 40*time.Second)
	set(&l.LeaseSilence, 40*time.Second)
	set(&l.APISilence, 15*time.Second)
	set(&l.MaxConcurrent, 1)
	set(&l.MaxStarts, 10)
	set(&l.StartWindow, time.Hour)
	set(&l.MaxRepeats, 3)
	set(&l.RepeatWindow, time.Hour)
	return l
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns all errors in l after its defaults are set: "fencing: Limits.Field: rule (got
// value)".
func (l Limits) Validate() error {
	l = l.WithDefaults()
	var problems []error
	refuse := func(field, rule string, got any) {
		problems = append(problems, fmt.Errorf("fencing: Limits.%s: %s (got %v)", field, rule, got))
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"NotReadyFor", l.NotReadyFor},
		{"CoolDown", l.CoolDown},
		{"Observation", l.Observation},
		{"APISilence", l.APISilence},
		{"StartWindow", l.StartWindow},
		{"RepeatWindow", l.RepeatWindow},
	} {
		if d.value < 0 {
			refuse(d.field, "must not be negative", d.value)
		}
	}
	if l.LeaseSilence < shortestSilence {
		refuse("LeaseSilence", fmt.Sprintf("must be at least %v", shortestSilence), l.LeaseSilence)
	}
	if l.StormPercent < 1 || l.StormPercent > 100 {
		refuse("StormPercent", "must be from 1 to 100", l.StormPercent)
	}
	for _, n := range []struct {
		field string
		value int
	}{
		{"MaxConcurrent", l.MaxConcurrent},
		{"MaxStarts", l.MaxStarts},
		{"MaxRepeats", l.MaxRepeats},
		{"PodsPerMinute", l.PodsPerMinute},
	} {
		if n.value < 0 {
			refuse(n.field, "must not be negative", n.value)
		}
	}
	for i, trigger := range l.FenceReadyNodes {
		field := fmt.Sprintf("FenceReadyNodes[%d]", i)
		switch {
		case trigger == "":
			refuse(field, "must be the type of a condition", `""`)
		case trigger == readyTrigger:
			refuse(field, "must be another condition, as no Ready node fails for not being Ready", trigger)
		case slices.Contains(l.FenceReadyNodes[:i], trigger):
			refuse(field, "must be there once", trigger)
		}
	}
	return errors.Join(problems...)
}

// shortestSilence is the interval at which kubelets renew their Leases by default. It is several
// times the interval at which the nodes are observed, because the observation starts again after a
// pause longer than LeaseSilence.
const shortestSilence = 10 * time.Second

// readyTrigger is the condition that starts a fence unless the target has another.
const readyTrigger = "Ready"
