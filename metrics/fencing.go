package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// checkLasts is how long a check of a node's devices counts. A removed node is not checked again.
const checkLasts = time.Hour

// Fencing registers the metrics of a fencing controller. It counts fences by phase, and nodes whose
// devices were checked within the last hour by the result.
func Fencing(registry prometheus.Registerer) (fencing.Hooks, error) {
	f := &factory{registry: registry, subsystem: "fencing"}
	s := register(f, &standing{
		phases: map[string]v1alpha1.Phase{}, checks: map[string]check{},
		fences: prometheus.NewDesc("bellwether_fencing_fences", "Fences that are there, by phase.", []string{"phase"},
			nil),
		nodes: prometheus.NewDesc("bellwether_fencing_checked_nodes",
			"Nodes whose devices were checked, by whether they could be fenced.", []string{"ready"}, nil),
	})
	transitions := f.counters("transitions_total", "Steps of fences, by name.", "transition")
	holds := f.counters("holds_total", "How often a fence began to wait for somebody.", "reason")
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
	// Before the first one, too: Prometheus sees an increase only of a series that was there.
	for _, reason := range []string{
		"NotConfigured", "OwnPartition", "Quorum", "Repeats", "RestartNeeded", "Storm", "ZoneStorm",
	} {
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
			unusable.Set(0)
			if err != nil {
				unusable.Set(1)
			}
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
		OnDecision: func(_ string, d fencing.Decision) {
			decisions.WithLabelValues(string(d.Verdict), d.Reason).Inc()
		},
		OnCommission: func(_ string, err error) { commissions.WithLabelValues(result(err)).Inc() },
		OnCheck: func(node string, err error) {
			checks.WithLabelValues(result(err)).Inc()
			s.checked(node, err)
		},
	}, f.err()
}

// standing is the present state, as opposed to events.
type standing struct {
	fences, nodes *prometheus.Desc

	mu     sync.Mutex
	phases map[string]v1alpha1.Phase // of the fence of a node
	checks map[string]check          // of the devices of a node
}

type check struct {
	at time.Time
	ok bool
}

func (s *standing) saw(fence *v1alpha1.NodeFence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phases[fence.Node] = fence.Status.Phase
}

func (s *standing) forgot(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.phases, node)
}

func (s *standing) checked(node string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[node] = check{time.Now(), err == nil}
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(to chan<- *prometheus.Desc) {
	to <- s.fences
	to <- s.nodes
}

// Collect implements prometheus.Collector.
func (s *standing) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	phases := map[v1alpha1.Phase]int{v1alpha1.PhaseGivenUp: 0} // alerts query it
	for _, phase := range s.phases {
		if phase != "" { // not begun yet
			phases[phase]++
		}
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
