package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// checkLasts is how long a check of a node's devices counts, because a removed node is not checked again.
const checkLasts = time.Hour

// Fencing registers the metrics of a fencing controller. While it leads, it counts fences by phase,
// blocked fences by reason, and nodes whose devices were checked within the last hour by result.
func Fencing(registry prometheus.Registerer) (fencing.Hooks, error) {
	f := &factory{registry: registry, subsystem: "fencing"}
	s := register(f, "fences", &standing{
		records: map[string]record{}, checks: map[string]check{},
		fences: prometheus.NewDesc("bellwether_fencing_fences", "Fences that are there, by phase.", []string{"phase"},
			nil),
		blocked: prometheus.NewDesc("bellwether_fencing_blocked_fences", "Fences that are blocked, by the reason.",
			[]string{"reason"}, nil),
		nodes: prometheus.NewDesc("bellwether_fencing_checked_nodes",
			"Nodes whose devices were checked, by whether they could be fenced.", []string{"ready"}, nil),
	})
	transitions := f.counters("transitions_total", "Steps of fences, by name.", "transition")
	holds := f.counters("holds_total", "Fences that started waiting for operator action, by reason.", "reason")
	freed := f.histogram("release_duration_seconds",
		"Time from the failure of a node until its fence had released the workloads.", ofFences)
	recovered := f.histogram("recovery_duration_seconds",
		"Time from the failure of a node until its fence had ended with the node back at work.", ofFences)
	commands := f.counters("commands_total", "Commands to devices that have ended. ok is no proof that anything was "+
		"switched.", "action", "result")
	commandTook := f.histograms("command_duration_seconds", "How long commands took.", ofDrains, "action")
	readings := f.counters("readings_total", "Readings of devices: on, off or unknown.", "power")
	readingTook := f.histogram("reading_duration_seconds", "How long readings took.", ofDrains)
	decisions := f.counters("decisions_total", "Answers of the policy.", "verdict", "reason")
	commissions := f.counters("commissions_total", "Commissions that have ended: error if nothing was proved.",
		"result")
	checks := f.counters("checks_total", "Checks of the devices of a node while nothing is wrong.", "result")
	unusable := f.gauge("configuration_unusable", "1 if no node has a usable configuration.")
	// Even before the first one, because Prometheus shows increases of existing series only.
	for _, reason := range alarming {
		holds.WithLabelValues(reason)
	}
	for _, outcome := range []string{"ok", "error"} {
		commissions.WithLabelValues(outcome)
		checks.WithLabelValues(outcome)
		for _, action := range []agent.Action{agent.ActionOff, agent.ActionOn} {
			commands.WithLabelValues(string(action), outcome)
			commandTook.WithLabelValues(string(action))
		}
	}
	return fencing.Hooks{
		OnConfiguration: func(err error) {
			setBool(unusable, err != nil)
		},
		OnRecord:    s.saw,
		OnForgotten: s.forgot,
		OnTransition: func(fence *v1alpha1.NodeFence, reason string) {
			transitions.WithLabelValues(reason).Inc()
			if len(fence.Status.Triggers) == 0 {
				return
			}
			took := time.Since(fence.Status.Triggers[0].Since.Time).Seconds()
			switch reason {
			case "WorkloadsFreed":
				freed.Observe(took)
			case "Recovered":
				recovered.Observe(took)
			}
		},
		OnBlocked: func(_ string, hold v1alpha1.Hold) { holds.WithLabelValues(hold.Reason).Inc() },
		OnCommand: func(_, _ string, action agent.Action, took time.Duration, err error) {
			commands.WithLabelValues(string(action), result(err)).Inc()
			commandTook.WithLabelValues(string(action)).Observe(took.Seconds())
		},
		OnReading: func(_, _ string, power agent.Power, took time.Duration) {
			readings.WithLabelValues(string(power)).Inc()
			readingTook.Observe(took.Seconds())
		},
		OnDecision: func(_ string, d api.Decision) {
			decisions.WithLabelValues(string(d.Verdict), d.Reason).Inc()
		},
		OnCommission: func(_ string, err error) { commissions.WithLabelValues(result(err)).Inc() },
		OnCheck: func(node string, err error) {
			checks.WithLabelValues(result(err)).Inc()
			s.checked(node, err)
		},
	}, f.err()
}

// alarming are the reasons of blocked fences that alerts query.
var alarming = []string{
	"AgentAlive", "ConfigurationChanged", "CoolDown", "NoPowerDevice", "NoReturn", "NotConfigured", "OffUnclear",
	"OwnHost", "OwnPartition", "Paused", "ProofTooOld", "Queue", "Quorum", "Rate", "Repeats", "RestartNeeded",
	"SameMachine", "StepFails", "Storm", "StorageUnreachable", "ZoneStorm",
}

// standing is the present state, as opposed to events.
type standing struct {
	fences, blocked, nodes *prometheus.Desc

	mu      sync.Mutex
	records map[string]record // of the fence of a node
	checks  map[string]check  // of the devices of a node
}

type record struct {
	phase   v1alpha1.Phase
	blocked string // the reason; empty if it is not
}

type check struct {
	at time.Time
	ok bool
}

func (s *standing) saw(fence *v1alpha1.NodeFence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := record{phase: fence.Status.Phase}
	if fence.Status.Hold != nil {
		r.blocked = fence.Status.Hold.Reason
	}
	s.records[fence.Node] = r
}

func (s *standing) forgot(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, node)
}

func (s *standing) checked(node string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[node] = check{time.Now(), err == nil}
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(to chan<- *prometheus.Desc) {
	to <- s.fences
	to <- s.blocked
	to <- s.nodes
}

// Collect implements prometheus.Collector.
func (s *standing) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	phases, blocked := map[v1alpha1.Phase]int{v1alpha1.PhaseGivenUp: 0}, map[string]int{} // alerts query it
	for _, reason := range alarming {
		blocked[reason] = 0
	}
	for _, r := range s.records {
		if r.phase != "" { // not begun yet
			phases[r.phase]++
		}
		if r.blocked != "" {
			blocked[r.blocked]++
		}
	}
	for reason, n := range blocked {
		to <- prometheus.MustNewConstMetric(s.blocked, prometheus.GaugeValue, float64(n), reason)
	}
	for phase, n := range phases {
		to <- prometheus.MustNewConstMetric(s.fences, prometheus.GaugeValue, float64(n), string(phase))
	}
	ready := map[bool]int{}
	for node, c := range s.checks {
		if time.Since(c.at) > checkLasts {
			delete(s.checks, node)
			continue
		}
		ready[c.ok]++
	}
	for is, label := range map[bool]string{true: "true", false: "false"} {
		to <- prometheus.MustNewConstMetric(s.nodes, prometheus.GaugeValue, float64(ready[is]), label)
	}
}
