package devices_test

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// Each benchmark is one experiment, whatever b.N is, and reports what it timed itself: from when a
// machine may lose its power, since its node has not returned within powerWait. The machines have
// real devices and agents, and kubelets that are goroutines. What the lab costs, which starts a
// process for each question to a BMC, is part of the figures.

// powerWait is how long a node may take to return.
const powerWait = 2 * time.Second

// BenchmarkRelease is until a machine with a BMC is off, until that is proved, and until its
// workload is gone from the API server, and may start elsewhere. The floor is the bare agent, in
// turns with it: until the machine is off, until it has said so, and what one reading takes.
func BenchmarkRelease(b *testing.B) {
	const rounds = 20
	f := newFleet(b, 1, func(s *site) { s.bmc(false) })
	f.lead(10*time.Second, 1)
	bare := f.bareMachine()
	var off, verified, released []time.Duration
	for range rounds {
		f.lose()
		released = append(released, f.released(0))
		off, verified = append(off, f.off(0)), append(verified, f.verified(0))
		f.ended()
		bare.fence()
	}
	f.report(released)
	for name, took := range map[string][]time.Duration{
		"off": off, "verified": verified, "bare-off": bare.off, "bare-off-answer": bare.answer,
		"bare-reading": bare.reading,
	} {
		slices.Sort(took)
		b.ReportMetric(1e3*took[len(took)/2].Seconds(), "ms-"+name)
	}
}

// bareMachine is one that nothing but its agent is asked to switch off.
type bareMachine struct {
	b                    *testing.B
	agents               quick
	machine              *lab.Machine
	target               agent.Target
	off, answer, reading []time.Duration
}

func (f *fleet) bareMachine() *bareMachine {
	f.b.Helper()
	m := &bareMachine{b: f.b, agents: newAgents(f.b, nil), machine: lab.NewMachine(func(bool) {})}
	bmc, err := f.sites[0].lab.BMC(m.machine.Chassis())
	require.NoError(f.b, err)
	m.target = agent.Target{
		Node: "bare", Device: "bare", Agent: bmc.Agent,
		Parameters: agent.NewParameters(bmc.Parameters),
	}
	return m
}

// fence has it switched off, read once, and switched on again by hand.
func (m *bareMachine) fence() {
	m.b.Helper()
	began := time.Now()
	require.NoError(m.b,
		m.agents.Switch(m.b.Context(), m.target,
			agent.Command{ID: "bare", Action: agent.ActionOff, Timeout: 10 * time.Second}))
	m.answer = append(m.answer, time.Since(began))
	m.off = append(m.off, lastOff(m.b, m.machine).Sub(began))
	began = time.Now()
	power, err := m.agents.Power(m.b.Context(), m.target)
	require.NoError(m.b, err)
	require.Equal(m.b, agent.PowerOff, power)
	m.reading = append(m.reading, time.Since(began))
	m.machine.Chassis().Press(true)
}

// lastOff is when a machine has lost its power last.
func lastOff(b *testing.B, m *lab.Machine) time.Time {
	b.Helper()
	for _, c := range slices.Backward(m.Changes()) {
		if !c.On {
			return c.At
		}
	}
	b.Fatal("it has always had power")
	return time.Time{}
}

// BenchmarkDeadBMC is until both power distribution units are off that take the place of a BMC that
// hangs, with 2 s for a command, and with 5 s.
func BenchmarkDeadBMC(b *testing.B) {
	for _, timeout := range []time.Duration{2 * time.Second, 5 * time.Second} {
		b.Run(timeout.String(), func(b *testing.B) { deadBMC(b, timeout) })
	}
}

func deadBMC(b *testing.B, timeout time.Duration) {
	f := newFleet(b, 1, func(s *site) { s.bmc(true) })
	f.lead(timeout, 1)
	var took []time.Duration
	for range 5 {
		bmc := f.sites[0].devices["ipmi-"+f.sites[0].node]
		require.NoError(b, bmc.Freeze())
		f.lose()
		f.released(0)
		took = append(took, f.off(0))
		f.ended()
		require.NoError(b, bmc.Thaw())
	}
	f.report(took)
}

// BenchmarkStuckBMC is the same with a BMC that acknowledges commands, and does nothing.
func BenchmarkStuckBMC(b *testing.B) {
	f := newFleet(b, 1, func(s *site) { s.bmc(true) })
	f.lead(2*time.Second, 1)
	var took []time.Duration
	for range 5 {
		f.sites[0].machine.Chassis().Break(lab.Fault{Ignores: true})
		f.lose()
		f.released(0)
		took = append(took, f.off(0))
		f.ended()
	}
	f.report(took)
}

const many = 20

// BenchmarkTwentyNodes is from the first decision until the last of 20 machines that fail at the
// same time has been released, and how the heap grows.
func BenchmarkTwentyNodes(b *testing.B) {
	const rounds = 3
	f := newFleet(b, many, func(s *site) { s.bmc(false) })
	f.lead(10*time.Second, many)
	var all, each []time.Duration
	var heap []float64
	for range rounds {
		heap = append(heap, heapInUse())
		f.lose()
		var first, last time.Time
		for i := range f.sites {
			took := f.released(i)
			each = append(each, took)
			decided, gone := f.times(i)
			if i == 0 || decided.Before(first) {
				first = decided
			}
			if gone.After(last) {
				last = gone
			}
		}
		all = append(all, last.Sub(first))
		f.ended()
	}
	f.report(each)
	b.ReportMetric(slices.Max(all).Seconds(), "s-all")
	b.ReportMetric(heap[0], "MB-heap-before")
	b.ReportMetric(heapInUse(), "MB-heap-after")
}

// BenchmarkTwentyMachines is the floor of that: 20 machines at the same time, and nothing but the
// agents: each reads once, switches off, and reads twice.
func BenchmarkTwentyMachines(b *testing.B) {
	f := newFleet(b, many, func(s *site) { s.bmc(false) })
	agents := newAgents(b, nil)
	var all []time.Duration
	for range 3 {
		var working sync.WaitGroup
		began := time.Now()
		for _, s := range f.sites {
			working.Go(func() {
				d := s.devices["ipmi-"+s.node]
				target := agent.Target{
					Node: s.node, Device: s.node, Agent: d.Agent,
					Parameters: agent.NewParameters(d.Parameters),
				}
				_, err := agents.Power(b.Context(), target)
				assert.NoError(b, err)
				assert.NoError(b,
					agents.Switch(b.Context(), target,
						agent.Command{ID: s.node, Action: agent.ActionOff, Timeout: 10 * time.Second}))
				for reading := range 2 {
					<-time.After(time.Duration(reading) * time.Second / 2)
					power, err := agents.Power(b.Context(), target)
					assert.NoError(b, err)
					assert.Equal(b, agent.PowerOff, power)
				}
			})
		}
		working.Wait()
		all = append(all, time.Since(began))
		for _, s := range f.sites {
			s.machine.Chassis().Press(true)
		}
	}
	b.ReportMetric(slices.Max(all).Seconds(), "s-all")
	b.ReportMetric(0, "ns/op")
}

// fleet is machines whose kubelets are goroutines of the benchmark.
type fleet struct {
	b     *testing.B
	sites []*site
	hosts []*host

	mu      sync.Mutex
	decided map[string]time.Time // when its machine might lose its power, by node
	proved  map[string]time.Time // that it had, by node
	gone    map[string]time.Time // when its pod was, by node
}

// newFleet returns so many machines, which build hangs on devices.
func newFleet(b *testing.B, n int, build func(*site)) *fleet {
	b.Helper()
	f := &fleet{b: b, decided: map[string]time.Time{}, proved: map[string]time.Time{}, gone: map[string]time.Time{}}
	l := labtest.New(b)
	for i := range n {
		s := &site{
			t: b, lab: l, plugs: map[string]*lab.Plug{}, devices: map[string]*lab.Device{},
			timeout: commandTimeout,
		}
		if i == 0 {
			s.found()
			s.patchNode(spareNode, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, s.namespace))
		} else {
			s.client, s.fences, s.namespace = f.sites[0].client, f.sites[0].fences, f.sites[0].namespace
		}
		s.node = fmt.Sprintf("%s-%d", s.podNamespace(), i+1)
		h := &host{}
		s.machine = lab.NewMachine(func(on bool) {
			if on {
				h.lose(false)
			}
		})
		_, err := s.client.CoreV1().Nodes().Create(b.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:   s.node,
				Labels: map[string]string{s.namespace: "true", corev1.LabelTopologyZone: s.node},
			},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
		build(s)
		f.sites, f.hosts = append(f.sites, s), append(f.hosts, h)
		f.kubelet(s, h)
	}
	f.watch()
	return f
}

// host is where a kubelet runs.
type host struct {
	mu   sync.Mutex // held while the kubelet says something
	lost bool
}

func (h *host) lose(lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost = lost
}

// kubelet has a node Ready while its machine runs and is not lost.
func (f *fleet) kubelet(s *site, h *host) {
	leases := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err := leases.Create(f.b.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: s.node}},
		metav1.CreateOptions{})
	require.NoError(f.b, err)
	beat := func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !s.machine.On() || h.lost {
			return
		}
		_, _ = leases.Patch(f.b.Context(), s.node, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro)),
			metav1.PatchOptions{})
		if !s.ready() {
			s.setReady(corev1.ConditionTrue)
		}
	}
	beat()
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				beat()
			}
		}
	})
	f.b.Cleanup(func() {
		close(stop)
		running.Wait()
	})
}

// watch sees when pods are gone.
func (f *fleet) watch() {
	w, err := f.sites[0].client.CoreV1().Pods(f.sites[0].podNamespace()).Watch(f.b.Context(), metav1.ListOptions{})
	require.NoError(f.b, err)
	var watching sync.WaitGroup
	watching.Go(func() {
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == "DELETED" {
				f.mu.Lock()
				f.gone[pod.Spec.NodeName] = time.Now()
				f.mu.Unlock()
			}
		}
	})
	f.b.Cleanup(func() {
		w.Stop()
		watching.Wait()
	})
}

// lead starts a controller for the machines, which may fence so many at a time.
func (f *fleet) lead(timeout time.Duration, atOnce int) {
	f.b.Helper()
	first := f.sites[0]
	c := first.leadBy(shared.User(first.user()), func(settings *fencing.Config) {
		settings.CommandTimeout = timeout
		settings.Limits.MaxConcurrent, settings.Limits.StormPercent, settings.Limits.MaxStarts,
			settings.Limits.MaxRepeats = atOnce, 100, 1000, 1000
		settings.Hooks.OnTransition = func(fence *v1alpha1.NodeFence, reason string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			switch reason {
			case "NodeIsolated":
				f.decided[fence.Node] = time.Now().Add(powerWait)
			case "Verified":
				f.proved[fence.Node] = time.Now()
			}
		}
	})
	f.b.Cleanup(c.stop)
	for _, s := range f.sites {
		s.checked(corev1.ConditionTrue)
	}
}

// lose has all machines fail, each with a pod.
func (f *fleet) lose() {
	f.b.Helper()
	f.mu.Lock()
	clear(f.decided)
	clear(f.gone)
	f.mu.Unlock()
	for i, s := range f.sites {
		s.run(fmt.Sprintf("%s-%d", podPlain, i))
		s.eventually("the node is Ready", s.ready)
	}
	for i, s := range f.sites {
		f.hosts[i].lose(true)
		s.setReady(corev1.ConditionUnknown)
	}
}

func (f *fleet) times(i int) (decided, gone time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decided[f.sites[i].node], f.gone[f.sites[i].node]
}

// released waits until the pod of a machine is gone, and returns how long that took from the
// decision.
func (f *fleet) released(i int) time.Duration {
	f.b.Helper()
	f.sites[i].eventually("the pod is gone", func() bool { _, gone := f.times(i); return !gone.IsZero() })
	decided, gone := f.times(i)
	return gone.Sub(decided)
}

// off is how long it took from the decision until the machine had no power.
func (f *fleet) off(i int) time.Duration {
	f.b.Helper()
	decided, _ := f.times(i)
	return lastOff(f.b, f.sites[i].machine).Sub(decided)
}

// verified is how long it took until that was proved.
func (f *fleet) verified(i int) time.Duration {
	f.b.Helper()
	decided, _ := f.times(i)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proved[f.sites[i].node].Sub(decided)
}

// ended waits until all machines work again.
func (f *fleet) ended() {
	f.b.Helper()
	for _, s := range f.sites {
		s.reaches(v1alpha1.PhaseFinal)
		assert.True(f.b, s.machine.On())
	}
}

func (f *fleet) report(took []time.Duration) {
	slices.Sort(took)
	at := func(q float64) float64 { return 1e3 * took[int(math.Ceil(q*float64(len(took))))-1].Seconds() }
	f.b.ReportMetric(at(0.5), "ms-p50")
	f.b.ReportMetric(at(0.95), "ms-p95")
	f.b.ReportMetric(at(1), "ms-max")
	f.b.ReportMetric(0, "ns/op")
}

// heapInUse is in MB, after garbage was collected.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// bmc hangs a machine on a BMC, and if asked for on two power distribution units besides.
func (s *site) bmc(pdus bool) {
	s.t.Helper()
	bmc, err := s.lab.BMC(s.machine.Chassis())
	require.NoError(s.t, err)
	name := "ipmi-" + s.node
	s.template(name, bmc, nil)
	levels, devices := []string{"bmc-off bmc-on"}, []methods{s.device("bmc", name, "", s.machine.Chassis())}
	if pdus {
		levels, devices = append(levels, pduLevel), append(devices, s.pdus()...)
	}
	s.configure("mark-unschedulable", "mark-schedulable", levels, devices...)
	s.setting("not_ready_for=0s", "power_wait="+powerWait.String())
}
