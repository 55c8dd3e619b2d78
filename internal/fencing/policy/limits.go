package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Limits are what an administrator can set. A field that is 0 has its default.
type Limits struct {
	// NotReadyFor (T) is how long a node has to fail before it is fenced. Default: 30 s.
	NotReadyFor time.Duration
	// StormPercent (P) is the share of unhealthy nodes, of all and of those of a zone, from which
	// on nothing is fenced, if it is at least two nodes. From 1 to 100. Default: 50.
	StormPercent int
	// CoolDown (C) is how long the share has to be below that before fencing begins again. Default:
	// 5 min.
	CoolDown time.Duration
	// Observation is how long whoever begins to decide has to have watched the nodes before
	// anything is fenced. Default: 40 s.
	Observation time.Duration
	// LeaseSilence is how long a node's Lease may stand unrenewed before the node counts as
	// unhealthy. It has to be longer than kubelets take to renew, which is 10 s unless they are
	// configured otherwise. Default: 40 s.
	LeaseSilence time.Duration
	// APISilence is how old this process' last confirmed write may be: the duration of its
	// elector's lease. Default: 15 s.
	APISilence time.Duration
	// MaxConcurrent is how many fences may have devices switched at a time. Default: 1.
	MaxConcurrent int
	// MaxStarts is how many fences may begin in StartWindow. Default: 10 in an hour.
	MaxStarts   int
	StartWindow time.Duration
	// MaxRepeats is how often one node may be fenced in RepeatWindow. Default: 3 times in an hour.
	MaxRepeats   int
	RepeatWindow time.Duration
	// PodsPerMinute is how many pods may be deleted per minute; see [Budget]. Default: no limit.
	PodsPerMinute int
	// RequireStorage has nothing fenced unless this process is known to reach the storage.
	RequireStorage bool
	// FenceReadyNodes are the types of conditions for which nodes are powered off even though they
	// are Ready. Default: none.
	FenceReadyNodes []string
}

// WithDefaults returns l with the fields set that are 0.
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

// usable returns limits that can be counted with: if l is not valid, which lets no gate pass, the
// defaults.
func (l Limits) usable() Limits {
	if l.Validate() != nil {
		l = Limits{}
	}
	return l.WithDefaults()
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns all rules that l breaks, once its defaults are set: "fencing: Limits.Field: rule
// (got value)".
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
		{"LeaseSilence", l.LeaseSilence},
		{"APISilence", l.APISilence},
		{"StartWindow", l.StartWindow},
		{"RepeatWindow", l.RepeatWindow},
	} {
		if d.value < 0 {
			refuse(d.field, "must not be negative", d.value)
		}
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

// readyTrigger is the condition that fences are started for unless they say another.
const readyTrigger = "Ready"
