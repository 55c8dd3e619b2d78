package leaderforlife_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/process"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

// TestSimulatedLeaders proves that no two Pods lead at once. There are two to five Pods; half of
// them are created again under the same name. Their containers are killed and restarted. Their
// requests are lost, late, refused, and answered by a proxy. Meanwhile Pods are deleted in the
// background and the foreground, complete, fail, and are reported to have failed while they run;
// and the lock is deleted and written to.
//
// It also proves that a Pod leads within vacancy after the last fault.
func TestSimulatedLeaders(t *testing.T) {
	seen := &sightings{n: map[string]int{}}
	sim.Prove(t, lifeScenario(seen, vacancy), sim.Schedules(t, 200))
	seen.requireAll(t)
}

// Events that are late when a fault ends stay late, by at most a minute.
func TestSimulatedLeadersWhoseWatchesLag(t *testing.T) {
	seen := &sightings{n: map[string]int{}}
	sim.Prove(t, lifeScenario(seen, vacancy+time.Minute, sim.WatchLag), sim.Schedules(t, 50))
	seen.requireAll(t)
}

const (
	simDuration = 6 * time.Minute
	simQuiet    = 4 * time.Minute

	// vacancy bounds how long no Pod leads when nothing is wrong any more, and no leader has
	// still to end: 10 s for a request that has lost its answer; the longest pause after it; and
	// one more for a write that comes too late, as when the garbage collector is just removing the
	// lock. The rest is for the requests themselves, with latencies of 50 ms each way.
	vacancy = 10*time.Second + 2*15*time.Second + 5*time.Second
)

func lifeScenario(seen *sightings, bound time.Duration, more ...sim.Kind) sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 5, RateError: 0.1, Duration: simDuration, Quiet: simQuiet,
		Kinds: append([]sim.Kind{
			sim.Pausing, sim.PausingNow, sim.Latency, sim.Partition, sim.LostRequests, sim.LostResponses, sim.Refused,
			sim.Throttled, sim.Kill, sim.Terminate, sim.Outage, sim.Restart, sim.Compaction, sim.Interference,
			sim.Interference, sim.Interference,
		}, more...),
		Main:      func(ctx context.Context, p *sim.Process) { townOf(p.World(), seen).run(ctx, p, bound) },
		Check:     func(w *sim.World) error { return w.ExactlyOne(lockName) },
		Interfere: func(w *sim.World, r *rand.Rand) { townOf(w, seen).interfere(r) },
		Rule: func(w *sim.World) sim.Rule {
			townOf(w, seen).build()
			return func(_, other *sim.Process) (violation, excuse string) {
				if other == nil {
					return "", ""
				}
				return "two leaders", ""
			}
		},
	}
}

// sightings counts what happened in all schedules.
type sightings struct {
	mu      sync.Mutex
	n       map[string]int
	longest time.Duration // without a leader when nothing was wrong
}

func (s *sightings) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[what]++
}

// vacant records for how long there was no leader when nothing was wrong.
func (s *sightings) vacant(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n["no leader in calm"]++
	s.longest = max(s.longest, d)
}

// The ways for a Pod to end.
var ends = []string{"deleted", "deleted in the foreground", "Succeeded", "Failed"}

func (s *sightings) requireAll(t *testing.T) {
	t.Helper()
	t.Log(s.n, "the longest time without a leader when nothing was wrong:", s.longest)
	for _, what := range append([]string{
		"led", "led on after a restart", "the lock was deleted", "the lock was written", "said to have Failed",
		"odd answers", "no leader in calm",
	}, ends...) {
		assert.True(t, s.n[what] > 0 || s.n["led"] < 100, "in no schedule: %s", what)
	}
}

// town holds the Pods of a schedule, and what their kubelets know.
type town struct {
	w          *sim.World
	begun      time.Time
	pods       corev1client.PodInterface
	configMaps corev1client.ConfigMapInterface // somebody's
	leases     coordinationclient.LeaseInterface
	lease      bool
	seen       *sightings

	mu     sync.Mutex
	chored time.Time // when the chores were done last
	well   time.Time // until then something was wrong, or somebody led
	houses map[byte]*house
	names  map[string]*sim.Process // that are occupied
}

// house holds one Pod after the other. Guarded by the town's mu.
type house struct {
	pod     *corev1.Pod // nil: none
	ending  bool        // no container is started
	tenant  *sim.Process
	stop    chan struct{} // closed when the container is to end
	left    chan struct{} // closed when it has
	made    int
	leading bool // a process of the Pod has led
	proxy   proxy
}

func townOf(w *sim.World, seen *sightings) *town {
	somebody := w.Server.Client("somebody").Config()
	fresh := &town{
		w: w, begun: time.Now(), pods: corev1client.NewForConfigOrDie(w.Server.Client("kubelet").Config()).Pods("ns"),
		configMaps: corev1client.NewForConfigOrDie(somebody).ConfigMaps("ns"),
		leases:     coordinationclient.NewForConfigOrDie(somebody).Leases("ns"),
		lease:      w.Replicas()%2 == 0, seen: seen,
		houses: map[byte]*house{}, names: map[string]*sim.Process{},
	}
	t, _ := w.State.LoadOrStore("town", fresh)
	return t.(*town)
}

func (t *town) house(id byte) *house {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.houses[id] == nil {
		t.houses[id] = &house{}
	}
	return t.houses[id]
}

// build makes the node on which all Pods run.
func (t *town) build() {
	client := corev1client.NewForConfigOrDie(t.w.Server.Client("kubelet").Config())
	_, err := client.Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
		metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
}

// chores run all the time, in any living process: a goroutine of the town itself would outlive a
// schedule that ends early, with a violation.
func (t *town) chores(ctx context.Context, bound time.Duration) {
	ticker := time.NewTicker(chore)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		t.mu.Lock()
		now, last := time.Now(), t.chored
		due := now.Sub(last) >= chore
		if due {
			t.chored = now
		}
		t.mu.Unlock()
		if due {
			t.w.Server.Collect()
			t.supervise(bound, now.Sub(last) > time.Second)
		}
	}
}

// chore is the interval of the chores.
const chore = 200 * time.Millisecond

// supervise reports a violation if there is no leader for longer than bound although nothing is
// wrong.
func (t *town) supervise(bound time.Duration, gap bool) {
	candidate, led := t.calm(), len(t.w.Working(lockName)) > 0
	t.mu.Lock()
	vacant := time.Since(t.well)
	if gap || candidate == nil || led {
		t.well = time.Now()
	}
	t.mu.Unlock()
	switch {
	case gap || candidate == nil:
	case led && vacant > 2*chore:
		t.seen.vacant(vacant)
	case !led && vacant > bound:
		candidate.Fail("is a candidate, nothing has been wrong for %v, and there is no leader", vacant)
	}
}

// calm returns a candidate if nothing is wrong: no fault lasts, every house has a Pod that is not
// ending, and its container runs.
func (t *town) calm() *sim.Process {
	if !t.w.Calm() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var candidate *sim.Process
	for i := range t.w.Replicas() {
		h := t.houses[byte('a'+i)]
		if h == nil || h.pod == nil || h.ending || !h.tenant.Alive() || isClosed(h.left) || h.proxy.isBroken() {
			return nil
		}
		candidate = h.tenant
	}
	return candidate
}

// run is a container: of the Pod that is there, or of a new one.
func (t *town) run(ctx context.Context, p *sim.Process, bound time.Duration) {
	var chores sync.WaitGroup
	defer chores.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chores.Go(func() { t.chores(ctx, bound) })
	h := t.house(p.Name[0])
	pod, stop, left := t.moveIn(ctx, h, p)
	if pod == nil {
		return
	}
	defer close(left)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	options := []leader.Option{
		leader.WithClient(kubernetes.NewForConfigOrDie(h.proxy.connect(p.Config()))),
		leader.WithNamespace("ns"), leader.WithPodName(pod.Name), leader.WithNodeCheck(),
		leader.WithProcessLock(func(name string) (func(), error) { return t.occupy(p, name) }),
	}
	if t.lease {
		options = append(options, leader.WithLease())
	}
	_, err := leader.BecomeIn(ctx, lockName, options...)
	if err != nil {
		return
	}
	p.Clock.Now() // where it may be stopped
	p.Begin(lockName)
	defer p.End(lockName)
	t.noteLeader(h, p)
	for ctx.Err() == nil {
		p.Clock.Now()
		p.Act(lockName)
		timer := p.Clock.NewTimer(time.Second)
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (t *town) noteLeader(h *house, p *sim.Process) {
	if !p.Alive() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.add("led")
	if h.leading {
		t.seen.add("led on after a restart")
	}
	h.leading = true
}

// moveIn returns the Pod to run in, once there is one.
func (t *town) moveIn(ctx context.Context, h *house, p *sim.Process) (pod *corev1.Pod, stop, left chan struct{}) {
	for ; ctx.Err() == nil && p.Alive(); time.Sleep(100 * time.Millisecond) {
		t.mu.Lock()
		free, old := !h.ending, h.pod
		name := string(p.Name[0])
		if p.Name[0]%2 == 0 { // as of a ReplicaSet; the others as of a StatefulSet
			h.made++
			name = fmt.Sprintf("%s-%d", name, h.made)
		}
		t.mu.Unlock()
		switch {
		case !free:
			continue
		case old == nil:
			var err error
			old, err = t.pods.Create(context.Background(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{kubelet}},
				Spec:       corev1.PodSpec{NodeName: node}, Status: running,
			}, metav1.CreateOptions{})
			if err != nil { // the one before is still there
				continue
			}
		}
		if stop, left, ok := t.settle(h, old, p); ok {
			return old, stop, left
		}
	}
	return nil, nil, nil
}

// settle makes a process run in a Pod, unless the Pod is ending.
func (t *town) settle(h *house, pod *corev1.Pod, p *sim.Process) (stop, left chan struct{}, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.ending {
		return nil, nil, false
	}
	h.pod, h.tenant, h.stop, h.left = pod, p, make(chan struct{}), make(chan struct{})
	return h.stop, h.left, true
}

// occupy acts like the kernel's sockets.
func (t *town) occupy(p *sim.Process, name string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.names[name]; other != nil && other.Alive() {
		return nil, process.ErrLocked
	}
	t.names[name] = p
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.names[name] == p {
			delete(t.names, name)
		}
	}, nil
}

// interfere acts like people and controllers.
func (t *town) interfere(r *rand.Rand) {
	switch r.IntN(9) {
	case 0:
		t.seen.add("the lock was deleted")
		_ = t.configMaps.Delete(context.Background(), lockName, metav1.DeleteOptions{})
		_ = t.leases.Delete(context.Background(), lockName, metav1.DeleteOptions{})
		return
	case 1:
		t.seen.add("the lock was written")
		t.annotate(r)
		return
	case 2, 3, 4:
		t.seen.add("odd answers")
		t.oddly(r)
		return
	}
	h := t.house(byte('a' + r.IntN(t.w.Replicas())))
	if workers := t.w.Working(lockName); len(workers) > 0 && r.IntN(3) > 0 {
		h = t.house(workers[0].Name[0])
	}
	t.begin(h, ends[r.IntN(len(ends))], r.IntN(4) == 0, time.Duration(r.IntN(20))*time.Second)
}

// begin starts to end the Pod of a house, if there is one.
func (t *town) begin(h *house, how string, falsely bool, grace time.Duration) {
	t.mu.Lock()
	pod := h.pod
	ready := pod != nil && !h.ending
	h.ending = h.ending || ready
	t.mu.Unlock()
	if ready {
		go t.end(h, pod, how, falsely, grace)
	}
}

// end ends a Pod. The kubelet then reports its end.
func (t *town) end(h *house, pod *corev1.Pod, how string, falsely bool, grace time.Duration) {
	t.seen.add(how)
	switch how {
	case "deleted":
		_ = t.pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
	case "deleted in the foreground":
		_ = t.pods.Delete(context.Background(), pod.Name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	}
	if falsely {
		t.seen.add("said to have Failed")
		t.update(pod.Name, t.pods.UpdateStatus, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	}
	time.Sleep(grace)
	t.mu.Lock()
	tenant, left := h.tenant, h.left
	close(h.stop)
	t.mu.Unlock()
	for tenant.Alive() && !isClosed(left) {
		time.Sleep(50 * time.Millisecond)
	}
	if how == "Succeeded" || how == "Failed" || falsely {
		phase := corev1.PodPhase(how)
		if falsely || how != "Succeeded" {
			phase = corev1.PodFailed
		}
		t.update(pod.Name, t.pods.UpdateStatus, func(p *corev1.Pod) { p.Status = over(phase, "") })
		time.Sleep(2 * grace)
		_ = t.pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{})
	}
	t.update(pod.Name, t.pods.Update, func(p *corev1.Pod) {
		p.Finalizers = slicesWithout(p.Finalizers, kubelet)
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	h.pod, h.ending, h.leading = nil, false, false
}

func slicesWithout(all []string, one string) (rest []string) {
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// update changes a Pod, and retries conflicts.
func (t *town) update(
	name string, write func(context.Context, *corev1.Pod, metav1.UpdateOptions) (*corev1.Pod, error),
	change func(*corev1.Pod),
) {
	for range 100 {
		pod, err := t.pods.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return
		}
		change(pod)
		if _, err = write(context.Background(), pod, metav1.UpdateOptions{}); err == nil {
			return
		}
	}
}
