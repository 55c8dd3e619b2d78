package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// Scenario is a program and what may happen to it.
type Scenario struct {
	// MinReplicas and MaxReplicas of the program.
	MinReplicas, MaxReplicas int
	// Main is the program. It returns when ctx has ended, and is started again if it returns earlier.
	Main func(ctx context.Context, p *Process)
	// RateError is the largest relative error of the clocks of two replicas, faster or slower.
	RateError float64
	// Unaware is how long after a suspension, by true time, work that does not look at the clock may continue.
	Unaware time.Duration
	// Kinds of faults that may happen. Default: all.
	Kinds []Kind
	// Duration is how long things go wrong, Quiet how long nothing does afterwards.
	Duration, Quiet time.Duration
	// Parent is what the parent of a process, a separate process on the same machine, does when the
	// process has died. Optional.
	Parent func(ctx context.Context, child, parent *Process)
	// Check returns an error if something is wrong after Quiet. Optional.
	Check func(w *World) error
	// Interfere does something that others do to the objects of the program, such as deleting them.
	// Optional.
	Interfere func(w *World, r *rand.Rand)
	// Odd means that the program is made for [OddAnswers].
	Odd bool
	// Annotate writes metadata of the objects that the program holds, but takes them from no
	// process. Optional.
	Annotate func(w *World)
	// Bound is how long all processes may be idle, while neither the server nor one of the
	// processes has a fault, whatever Annotate writes. Zero means no limit.
	Bound time.Duration
	// Candidate reports whether Bound applies to a process. Default: to all.
	Candidate func(p *Process) bool
	// Immune reports what cannot happen to a process, such as a pause where it goes by real time
	// instead of [Process.Clock]. Optional.
	Immune func(p *Process, k Kind) bool
	// Rule makes the rule of a schedule. Optional; by default only an overlap is a violation.
	Rule func(w *World) Rule
	// Resources of the server besides those that every server has.
	Resources []apisim.Resource
}

// Result is the outcome of a schedule.
type Result struct {
	Seed      uint64
	Plan      Plan
	Violation string        // empty if none happened
	At        time.Duration // of the violation
	Trace     []apisim.Served
	Begun     int            // how often a process has begun to work
	Excused   map[string]int // overlaps that the rule excuses: of how many pairs of processes, by excuse
}

// exitRestart is how long after its own end a process is started again.
const exitRestart = time.Second

const (
	// lastWords is how long before the -timeout of the test binary a schedule that still runs reports itself.
	lastWords = 10 * time.Second
	// stuck is how long a schedule may take if there is no -timeout, as in a soak.
	stuck = time.Hour
)

// watch ends the process with what is known of the schedule, shortly before the -timeout of the test binary
// would. Until then the duration of a schedule proves nothing, because the machine may be slow. It uses real
// time, because that of the bubble stands still while a goroutine waits for a lock or runs in circles.
func watch(t *testing.T, plan Plan) (stop func() bool) {
	t.Helper()
	begin := time.Now()
	end, ok := t.Deadline()
	if !ok {
		end = begin.Add(stuck)
	}
	return time.AfterFunc(time.Until(end)-lastWords, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("sim: %s still runs after %v: a goroutine waits for a lock or runs in circles, in\n%s",
			t.Name(), time.Since(begin), plan))
	}).Stop
}

// World is a running schedule.
type World struct {
	Server *apisim.Server
	// State is for the scenario, with one for each schedule.
	State sync.Map

	scenario Scenario
	plan     Plan
	referee  *referee
	ctx      context.Context //nolint:containedctx // of all that runs in the schedule, which is what a World is
	running  sync.WaitGroup  // the Main of every process
	over     chan struct{}   // closed at the end

	mu           sync.Mutex
	current      []*Process // by replica
	incarnations []int      // by replica
	graves       []*Process
	parents      []*Process      // of all incarnations
	conditions   map[*Fault]bool // that hold now
	started      map[string]bool // names of processes
	disturbed    map[int]bool    // replicas that something happened to since liveness was last looked at
	trace        []apisim.Served // until the end
}

// Run runs the schedule of a seed. With a trace, the server serves requests in that order.
func Run(t *testing.T, s Scenario, seed uint64, trace []apisim.Served) Result {
	t.Helper()
	result := Play(t, s, newPlan(s, seed), trace)
	result.Seed = seed
	return result
}

// Play runs a schedule in a separate bubble.
func Play(t *testing.T, s Scenario, plan Plan, trace []apisim.Served) Result {
	t.Helper()
	result := Result{Plan: plan}
	defer watch(t, plan)()
	plan.Faults = slices.Clone(plan.Faults) // a fault of the worker becomes that of a replica
	synctest.Test(t, func(t *testing.T) {
		w := &World{
			Server: apisim.NewServer(s.Resources...), scenario: s, plan: plan, referee: newReferee(), ctx: t.Context(),
			over: make(chan struct{}), current: make([]*Process, len(result.Plan.Replicas)),
			incarnations: make([]int, len(result.Plan.Replicas)), conditions: map[*Fault]bool{},
			disturbed: map[int]bool{},
			started:   map[string]bool{},
		}
		if trace != nil {
			w.Server.Replay(trace)
		}
		if s.Rule != nil {
			w.referee.rule = s.Rule(w)
		}
		w.play()
		w.end()
		result.Violation, result.At, result.Begun = w.referee.violation, w.referee.at, w.referee.begun
		result.Excused = w.referee.excused
		result.Trace = w.trace
	})
	return result
}

// Replicas returns the number of replicas, running or not.
func (w *World) Replicas() int { return len(w.plan.Replicas) }

// Connect returns a connection without faults. Its clients use the same encoding as the processes.
func (w *World) Connect(name string) *apisim.Client {
	c := w.Server.Client(name)
	if w.plan.JSON {
		c.PreferJSON()
	}
	return c
}

// Working returns the living processes that work on key.
func (w *World) Working(key string) []*Process { return w.referee.workers(key) }

// Calm reports whether no faults hold now, except of clocks.
func (w *World) Calm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.conditions) == 0 && !w.Server.Restarted() &&
		!slices.ContainsFunc(w.current, func(p *Process) bool { return p != nil && !p.acting() })
}

// play runs the schedule until it is over or a rule is violated.
func (w *World) play() {
	for i, r := range w.plan.Replicas {
		time.AfterFunc(r.Start, func() { w.start(i) })
	}
	if w.scenario.Bound > 0 {
		w.running.Go(w.superviseLiveness)
	}
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; w.wait(f.At) {
			w.inflict(f)
		}
	}
	if !w.wait(w.scenario.Duration) {
		return
	}
	w.mend()
	if w.wait(w.scenario.Duration+w.scenario.Quiet) && w.scenario.Check != nil {
		if err := w.scenario.Check(w); err != nil {
			w.referee.mu.Lock()
			defer w.referee.mu.Unlock()
			w.referee.fail("at the end: " + err.Error())
		}
	}
}

// mend ends pauses that last longer than planned because they began later. All other faults are over.
func (w *World) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.current {
		if p != nil {
			p.Clock.afterReadings(0, nil)
			p.resume()
		}
	}
	for _, p := range w.parents {
		p.resume()
	}
}

// wait returns true at a time of the schedule, or false if the schedule has failed by then.
func (w *World) wait(at time.Duration) bool {
	timer := time.NewTimer(time.Until(w.referee.start.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.referee.violated:
		return false
	}
}

// end buries every process and waits for their goroutines.
func (w *World) end() {
	w.mu.Lock()
	close(w.over)
	w.trace = w.Server.Trace()
	processes := slices.Concat(w.graves, w.current, w.parents)
	w.mu.Unlock()
	for _, p := range processes {
		if p != nil {
			p.bury()
		}
	}
	w.running.Wait()
	//nolint:forbidigo // in the bubble: work may outlive its process
	time.Sleep(time.Minute)
}

func (w *World) isOver() bool {
	select {
	case <-w.over:
		return true
	default:
		return false
	}
}

// start starts a replica that does not run.
func (w *World) start(replica int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isOver() || w.current[replica] != nil {
		return
	}
	w.incarnations[replica]++
	name, own := processName(replica, w.incarnations[replica]), w.plan.Replicas[replica]
	p := &Process{Name: name, Clock: newClock(own.Offset, own.Rate), connection: w.Connect(name), world: w}
	w.current[replica], w.started[name] = p, true
	if w.scenario.Parent != nil {
		name += "'s parent"
		p.parent = &Process{
			Name: name, Clock: newClock(own.Offset, own.Rate), connection: w.Connect(name), world: w,
			cancel: func() {}, replica: replica,
		}
		w.parents = append(w.parents, p.parent)
		p.parent.connection.Inject(w.faults(replica))
	}
	p.connection.Inject(w.faults(replica))
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(w.ctx)
	w.running.Go(func() {
		w.scenario.Main(ctx, p)
		w.kill(p, exitRestart)
	})
}

// kill ends a process and starts its replica again later.
func (w *World) kill(p *Process, restart time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for replica, current := range w.current {
		if current != p || w.isOver() {
			continue
		}
		p.die()
		w.current[replica] = nil
		w.graves = append(w.graves, p)
		if p.parent != nil && p.parent.Alive() {
			w.running.Go(func() { w.scenario.Parent(w.ctx, p, p.parent) })
		}
		time.AfterFunc(restart, func() { w.start(replica) })
	}
}

// inflict begins a fault and ends it.
func (w *World) inflict(f *Fault) {
	w.mu.Lock()
	if f.Replica == Worker {
		f.Replica = max(0, slices.IndexFunc(w.current, w.referee.works))
	}
	p := w.current[f.Replica]
	w.disturb(f)
	w.mu.Unlock()
	switch f.Kind {
	case Restart:
		w.Server.Restart(int64(f.Count))
		time.AfterFunc(f.For, func() { w.Server.Restart(0) })
	case Compaction:
		w.Server.Compact()
	case Interference:
		w.scenario.Interfere(w, rand.New(rand.NewPCG(uint64(f.Count), 1)))
	case Annotations:
		w.running.Go(func() { w.annotate(f) })
	case Pausing, PausingNow, ClockStep, Kill, Terminate:
		if p != nil && (w.scenario.Immune == nil || !w.scenario.Immune(p, f.Kind)) {
			w.afflict(p, f)
		}
	default:
		w.hold(f, true)
		time.AfterFunc(f.For, func() { w.hold(f, false) })
	}
}

// afflict applies a fault to a process.
func (w *World) afflict(p *Process, f *Fault) {
	switch f.Kind {
	case Pausing:
		p.pause(Pause(f.Count), f.For)
		if p.parent != nil && Pause(f.Count) != Stop { // it is on the same machine
			p.parent.pause(Pause(f.Count), f.For)
		}
	case PausingNow:
		p.Clock.afterReadings(f.Count, func() { p.pause(Pause(f.Amount), f.For) })
	case ClockStep:
		p.Clock.step(f.Amount)
	case Kill:
		if p.parent != nil {
			p.parent.suffer(f)
		}
		w.kill(p, f.For)
	case Terminate:
		p.terminate(f.Amount)
		time.AfterFunc(f.For, func() { w.kill(p, exitRestart) })
	}
}

// hold notes whether a fault of connections holds.
func (w *World) hold(f *Fault, holds bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if holds {
		w.conditions[f] = true
	} else {
		delete(w.conditions, f)
	}
	for replica, p := range w.current {
		if p != nil && (f.ofServer() || f.Replica == replica) {
			p.connection.Inject(w.faults(replica))
		}
	}
	for _, p := range w.parents {
		if f.ofServer() || f.Replica == p.replica {
			p.connection.Inject(w.faults(p.replica))
		}
	}
}

// faults are those of a replica's connection that hold now. The caller holds mu.
func (w *World) faults(replica int) apisim.Faults {
	faults := apisim.Faults{Latency: w.plan.Replicas[replica].Latency}
	for f := range w.conditions {
		if !f.ofServer() && f.Replica != replica {
			continue
		}
		switch f.Kind {
		case Latency:
			faults.Latency = max(faults.Latency, f.Amount)
		case WatchLag:
			faults.WatchLag = max(faults.WatchLag, f.Amount)
		case Partition, Outage:
			faults.LoseRequest, faults.LoseResponse, faults.Silent = apisim.Always, apisim.Always, true
		case LostRequests:
			faults.LoseRequest = either(faults.LoseRequest, isWrite)
		case LostResponses:
			faults.LoseResponse = either(faults.LoseResponse, isWrite)
		case Refused:
			faults.Refuse = apisim.Always
		case Throttled:
			faults.Throttle = apisim.Always
		case OddAnswers:
			faults.Odd = apisim.Oddities[f.Count%len(apisim.Oddities)]
		}
	}
	return faults
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

func either(a, b func(*http.Request) bool) func(*http.Request) bool {
	if a == nil {
		return b
	}
	return a
}

// errNone and errSeveral are the errors of ExactlyOne.
var (
	errNone    = errors.New("no process works")
	errSeveral = errors.New("several work")
)

// ExactlyOne is a Check that exactly one process works on key.
func (w *World) ExactlyOne(key string) error {
	switch len(w.Working(key)) {
	case 0:
		return errNone
	case 1:
		return nil
	default:
		return errSeveral
	}
}
