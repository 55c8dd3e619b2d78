package leaderelection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	clientgo "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/sim"
)

// TestSimulatedMixedFleet lets our elector and client-go's contend for one Lease.
//
// client-go's leaders overlap others by their own doing, and ours are not to blame for that. A
// ledger that the server keeps, of who has written which record when, tells whether they are. Of
// ours it demands, whenever one begins to work or acts, and whether or not somebody else works
// then:
//
//   - the record that it replaced was free: absent, or released by one of ours, or had stood for as
//     long as its kind has to;
//   - it has not released the Lease since;
//   - its last write is younger than D.
//
// The last is what makes an expiry successor of either kind safe: a successor by expiry has
// seen that write stand for D. So while all three hold, a client-go leader that works too either
// goes on without a term, or took a record that it had to let expire: that is counted, not held
// against us. Two of ours at once are never excused.
//
// Liveness is asked of ours alone, and while client-go holds the Lease of no replica: its
// candidates write the record for as long as their writes arrive, and do not work when the answers
// are lost.
func TestSimulatedMixedFleet(t *testing.T) {
	s := election((*sim.Process).Exit, func(w *sim.World, r *rand.Rand) { patchLease(w, harmless(r)) })
	s.Main = func(ctx context.Context, p *sim.Process) {
		if isForeign(p.Name) {
			runForeignReplica(ctx, p)
		} else {
			runReplica(ctx, p, nil, (*sim.Process).Exit)
		}
	}
	s.Immune = func(p *sim.Process, k sim.Kind) bool { // client-go's elector goes by real time
		return isForeign(p.Name) && (k == sim.Pausing || k == sim.PausingNow || k == sim.ClockStep)
	}
	var ledgers sync.Map // by world
	s.Rule = func(w *sim.World) sim.Rule {
		l := &ledger{terms: map[string]*ledgerTerm{}}
		ledgers.Store(w, l)
		w.Server.Observe(l.note)
		return l.judge
	}
	s.Candidate = func(p *sim.Process) bool {
		l, known := ledgers.Load(p.World())
		return known && !isForeign(p.Name) && l.(*ledger).mayBeOurs()
	}
	sim.Prove(t, s, sim.Schedules(t, 100))
}

// isForeign reports whether a process runs client-go's elector. It alternates between replicas and
// between the starts of a replica, as in a roll-out that is undone and repeated.
func isForeign(name string) bool { return name != "" && (name[0]+name[len(name)-1])%2 == 1 }

// runForeignReplica is a program with client-go's elector, as most are: it ends when leadership is
// lost, and when it must end, after its work.
func runForeignReplica(ctx context.Context, p *sim.Process) {
	config := p.Config()
	config.Timeout = 5 * time.Second // controller-runtime's; without one, a candidate waits for a lost answer for ever
	client := kubernetes.NewForConfigOrDie(config)
	began, ended := make(chan struct{}), make(chan struct{})
	elector, err := clientgo.NewLeaderElector(clientgo.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "l"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: p.Name},
		},
		LeaseDuration: ledgerDuration, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: clientgo.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				close(began)
				defer close(ended)
				leadForeign(ctx, p)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		panic(err)
	}
	elector.Run(klog.NewContext(ctx, klog.Logger{}))
	if ctx.Err() == nil {
		p.Exit()
	}
	select {
	case <-began:
		<-ended
	default:
	}
}

// leadForeign is work that acts until it must end, and takes its time to stop.
func leadForeign(ctx context.Context, p *sim.Process) {
	p.Begin("l")
	defer p.End("l")
	stopping, stop := ctx.Done(), make(<-chan time.Time)
	for {
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-stopping:
			stopping, stop = nil, p.Clock.NewTimer(p.Drain()).C()
		case <-stop:
			return
		case <-tick.C():
			p.Act("l")
		}
		tick.Stop()
	}
}

// The durations that everybody in a mixed fleet uses, and by how much a clock of ours may be fast.
const (
	ledgerDuration = 15 * time.Second
	ledgerPatience = 20 * time.Second // D + max(D/3, 5 s)
	ledgerRate     = 1.1
)

// ledger is the history of the record, by the server's time. It knows who wrote what, so it needs
// none of our annotations.
type ledger struct {
	mu       sync.Mutex
	terms    map[string]*ledgerTerm // by holder: the latest
	since    time.Time              // when the spec was changed last
	holder   string                 // the latest, empty if none
	released bool                   // by one of ours, when its work had ended
}

type ledgerTerm struct {
	foreign        bool
	began, renewed time.Time
	released       bool          // by its holder
	stood, due     time.Duration // for how long the record that it replaced had stood, and had to
}

// note takes in a change.
func (l *ledger) note(c apisim.Change) {
	before, after := specOf(c.Before), specOf(c.After)
	if reflect.DeepEqual(before, after) { // metadata does not matter
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	old, holder := holderOf(before), holderOf(after)
	switch holder {
	case "":
		if old != "" { // what has been released stays so, whatever is done to an empty holder
			l.released = old == c.Client && !isForeign(old)
		}
		if t := l.terms[old]; t != nil && old == c.Client {
			t.released = true
		}
	case old:
		l.terms[holder].renewed = now
	default:
		t := &ledgerTerm{
			foreign: isForeign(holder), began: now, renewed: now, stood: now.Sub(l.since),
			due: ledgerDuration,
		}
		switch {
		case c.Before == nil, old == "" && l.released:
			t.due = 0
		case old != "" && isForeign(old) && !t.foreign:
			t.due = ledgerPatience
		}
		l.terms[holder] = t
	}
	l.since, l.holder = now, holder
}

// mayBeOurs says whether one of ours holds the Lease, or may take it.
func (l *ledger) mayBeOurs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !isForeign(l.holder) || time.Since(l.since) >= ledgerPatience
}

// judge is the rule.
func (l *ledger) judge(p, other *sim.Process) (violation, excuse string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, worker := range []*sim.Process{p, other} {
		if worker != nil && isForeign(worker.Name) && l.terms[worker.Name] == nil { // it believes any answer
			return "", "client-go took an odd answer for a Lease of its own"
		}
	}
	mine := l.terms[p.Name]
	if other == nil || mine == nil {
		return mine.wrong(), ""
	}
	if wrong := l.terms[other.Name].wrong(); wrong != "" {
		return "the other is wrong: " + wrong, ""
	}
	first, second := mine, l.terms[other.Name]
	if second.began.Before(first.began) {
		first, second = second, first
	}
	switch {
	case !first.foreign && !second.foreign:
		return "two of ours", ""
	case first.foreign && second.foreign:
		return "", "client-go with client-go, " + first.excuse(second)
	}
	if !first.foreign && second.stood >= second.due {
		return "taken over by right, and goes on", ""
	}
	return "", "client-go with ours, " + first.excuse(second)
}

// wrong says why the holder of a term must not work now; empty: it may, or is none of ours.
func (t *ledgerTerm) wrong() string {
	switch {
	case t == nil:
		return "it has no term"
	case t.foreign:
		return ""
	case float64(t.stood)*ledgerRate < float64(t.due):
		return fmt.Sprintf("it took a record that had stood for %v only", t.stood)
	case t.released:
		return "it has released the Lease"
	case time.Since(t.renewed) >= ledgerDuration:
		return fmt.Sprintf("its last write is from %v ago", time.Since(t.renewed))
	}
	return ""
}

// excuse is what client-go did when the holder of the term after this one began to work.
func (t *ledgerTerm) excuse(next *ledgerTerm) string {
	switch {
	case next.foreign && next.stood < next.due && !t.released:
		return "which took a record that somebody had emptied"
	case t.released:
		return "which worked on after it had released the Lease"
	}
	return "which worked on after its record had expired"
}

func specOf(o *apisim.Object) map[string]any {
	if o == nil {
		return nil
	}
	spec, _, _ := unstructured.NestedMap(o.Content(), "spec")
	return spec
}

func holderOf(spec map[string]any) string {
	holder, _ := spec["holderIdentity"].(string)
	return holder
}
