package leaderelectiontest

import (
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// Another is the identity of the process that leads while the elector does not.
const Another = "another"

// forever is how long the elector would wait for a Lease of another process that is not renewed.
const forever = 10 * 365 * 24 * time.Hour

// Election is an elector, and a test that decides whether it leads. Its methods may not be called by
// the work, nor by hooks.
type Election struct {
	// Elector is what the program under test gets.
	Elector *leaderelection.Elector

	t        testing.TB
	lease    types.NamespacedName
	stepDown time.Duration
	cluster  *cluster
	clock    *jumpingClock
	stamps   lease.Stamps

	mu     sync.Mutex
	counts counts // guarded by mu
}

// counts count what has happened.
type counts struct {
	started, stopped, lost int
	loss                   error // of the term that has stopped last; nil if it was not lost
}

// New returns an election in which another process leads. The defaults of config are those of the
// program, but Namespace and Name may be empty. KernelDeadline, Supervisor, PodUID and Clock are
// ignored. OnLost is called, but does not end the process by default.
func New(t testing.TB, config leaderelection.Config) *Election {
	t.Helper()
	if config.Namespace == "" {
		config.Namespace = "default"
	}
	if config.Name == "" {
		config.Name = "test"
	}
	e := &Election{
		t: t, lease: types.NamespacedName{Namespace: config.Namespace, Name: config.Name},
		stepDown: config.StepDown,
		cluster:  newCluster(), clock: &jumpingClock{origin: time.Now()},
	}
	config.KernelDeadline, config.Supervisor, config.PodUID, config.Clock = false, nil, "", e.clock
	onLost, started, stopped := config.OnLost, config.Hooks.OnStartedLeading, config.Hooks.OnStoppedLeading
	config.OnLost = func(err error) {
		if onLost != nil {
			onLost(err)
		}
		e.count(func(c *counts) { c.lost++ })
	}
	config.Hooks.OnStartedLeading = func(term leaderelection.Term) {
		if started != nil {
			started(term)
		}
		e.count(func(c *counts) { c.started++ })
	}
	config.Hooks.OnStoppedLeading = func(term leaderelection.Term, err error) {
		if stopped != nil {
			stopped(term, err)
		}
		e.cluster.answer(e.lease, e.taken) // or the elector would lead again at once after a step down
		e.count(func(c *counts) { c.stopped, c.loss = c.stopped+1, err })
	}
	var err error
	if e.Elector, err = leaderelection.New(e.cluster.client, config); err != nil {
		t.Fatalf("leaderelectiontest: %v", err)
	}
	e.write("let another process lead", e.taken)
	return e
}

// Elect frees the Lease, and returns when the elector leads. It does nothing if the elector leads
// already. The elector's Run must be called, before or meanwhile.
func (e *Election) Elect() {
	e.t.Helper()
	if e.Elector.IsLeader() {
		return
	}
	before := e.counted()
	e.write("free the Lease", func(l *coordinationv1.Lease) *coordinationv1.Lease {
		if r := lease.RecordOf(l); r.Holder() == Another {
			return r.Release(e.stamp())
		}
		return nil
	})
	e.await("the elector does not lead: is its Run called, and has the work of its last term returned?",
		func() bool {
			if e.counted().started > before.started {
				return true
			}
			e.clock.jump(100 * time.Millisecond) // a candidate pauses after requests that have failed
			return false
		})
}

// Depose lets another process take the Lease, as after a partition of the network. It returns when
// the elector has lost it: the context of the work has ended and guarded clients refuse, but the
// work may still run. The elector must lead.
func (e *Election) Depose() {
	e.t.Helper()
	before := e.leading("Depose")
	e.write("let another process lead", e.taken)
	e.await("the elector has not noticed that another process leads",
		func() bool { return e.counted().lost > before.lost })
}

// StepDown silences the API server until the work is asked to end before the deadline, and returns
// when it has ended. The process stays, and Elect makes it the leader again. It fails the test if
// the work does not return in time. The elector must lead by Run, with StepDown in its
// configuration.
func (e *Election) StepDown() {
	e.t.Helper()
	if e.stepDown == 0 {
		e.t.Fatalf("leaderelectiontest: StepDown: set Config.StepDown, as in the program: " +
			"without it the work is not asked to end")
		return
	}
	before := e.leading("StepDown")
	e.cluster.silence()
	e.clock.jump(e.Elector.Remaining() - e.stepDown)
	e.await("the elector has not asked its work to end: is it in Run?",
		func() bool { return e.counted().stopped > before.stopped })
	if e.counted().loss != nil {
		e.t.Fatalf("leaderelectiontest: StepDown: the lead is lost: the work has not returned in %v after it was "+
			"asked to end", e.stepDown)
	}
}

// leading fails the test if the elector does not lead.
func (e *Election) leading(what string) counts {
	e.t.Helper()
	if !e.Elector.IsLeader() {
		e.t.Fatalf("leaderelectiontest: %s: the elector does not lead: call Elect first", what)
	}
	return e.counted()
}

// taken returns the Lease that another process has taken.
func (e *Election) taken(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = lease.RecordOf(l).Acquired(e.lease, Another, forever, e.stamp())
	lease.SetProcess(l, Another)
	return l
}

func (e *Election) stamp() metav1.MicroTime { return e.stamps.Next(e.clock.Now().Wall) }

func (e *Election) write(what string, next func(*coordinationv1.Lease) *coordinationv1.Lease) {
	e.t.Helper()
	if err := e.cluster.change(e.lease, next); err != nil {
		e.t.Fatalf("leaderelectiontest: %s: %v", what, err)
	}
}

// patience is how long something may take that needs no time.
const patience = 10 * time.Second

// await returns when happened does, and fails the test if that takes long.
func (e *Election) await(failure string, happened func() bool) {
	e.t.Helper()
	for waited := time.Duration(0); !happened(); waited += time.Millisecond {
		if waited >= patience {
			e.t.Fatalf("leaderelectiontest: %s", failure)
			return
		}
		<-time.After(time.Millisecond)
	}
}

func (e *Election) count(what func(*counts)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what(&e.counts)
}

func (e *Election) counted() counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts
}
