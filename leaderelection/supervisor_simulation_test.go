package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/leasehold"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestSimulatedSupervisors has a parent for each process, which releases the Lease when the process
// has died. The parent is stopped or killed, too, also between its read and its write, and has the
// network of its machine. Besides exclusion, the referee judges guarded writes: none may arrive
// after a later leader has begun to work, unless it was under way for almost a margin.
func TestSimulatedSupervisors(t *testing.T) {
	sim.Prove(t, supervised(), sim.Schedules(t, 300))
}

// underWay is how long a write may be under way: a margin, by clocks that are not quite right.
const underWay = 3 * time.Second * 17 / 20

func supervised() sim.Scenario {
	s := election((*sim.Process).Exit, nil)
	s.RateError, s.Bound = 0.005, 0
	s.Duration, s.Quiet = 3*time.Minute, time.Minute
	// A process that is stopped between the guard and the network sends when it wakes.
	s.Kinds = []sim.Kind{
		sim.Latency, sim.WatchLag, sim.Partition, sim.LostRequests, sim.LostResponses, sim.Refused, sim.Throttled,
		sim.ClockStep, sim.Kill, sim.Kill, sim.Terminate, sim.Outage, sim.Restart, sim.Compaction,
	}
	s.Main = runSupervised
	s.Parent = inherit
	return s
}

// book is the ledger of a simulated process and its parent.
type book struct {
	child *sim.Process
	mark  string

	mu      sync.Mutex
	entries lease.Entries
}

func (l *book) Now() time.Duration { return elapsed(l.child) }

// elapsed is the boot clock of a machine.
func elapsed(p *sim.Process) time.Duration {
	now := p.Clock.Now()
	return now.Monotonic + now.Suspended
}

func (l *book) Hold(since, until time.Duration, guarded bool) {
	l.set(func(e *lease.Entries) { e.Since, e.Until, e.Guarded = since, until, guarded })
}
func (l *book) Stored(r lease.Record)     { l.set(func(e *lease.Entries) { e.Stored = r }) }
func (l *book) Free()                     { l.set(func(e *lease.Entries) { e.Until = 0 }) }
func (l *book) Send()                     { l.set(func(e *lease.Entries) { e.Open++ }) }
func (l *book) Begin(uint64) (end func()) { return func() {} }

func (l *book) Answer(until time.Duration) {
	l.set(func(e *lease.Entries) { e.Open, e.OpenUntil = e.Open-1, max(e.OpenUntil, until) })
}

// set changes what the parent reads. A dead process changes nothing.
func (l *book) set(change func(*lease.Entries)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.child.Alive() {
		change(&l.entries)
	}
}

// inherit is the parent of a process that has died.
func inherit(ctx context.Context, child, parent *sim.Process) {
	found, ok := child.World().State.Load(child.Name)
	if !ok { // it died before it had an elector
		return
	}
	l := found.(*book)
	l.mu.Lock()
	claim := lease.Claim{Process: l.mark, Timing: lease.Timing{}.WithDefaults()}
	orphan := lease.Orphan{Claim: claim, Entries: l.entries}
	l.mu.Unlock()
	store := leasehold.NewStore(kubernetes.NewForConfigOrDie(parent.Config()).CoordinationV1(), leasehold.Config{
		Lease: types.NamespacedName{Namespace: "ns", Name: "l"}, Clock: parent.Clock, Log: zap.NewNop(),
	}, 0)
	now := func() time.Duration { return elapsed(parent) }
	if leasehold.ReleaseOrphan(ctx, orphan, store, parent.Clock, now, now()) == nil {
		child.World().State.Store("released", true)
	}
}

// runSupervised is a program with an elector, a guarded client and a supervisor.
func runSupervised(ctx context.Context, p *sim.Process) {
	runGuarded(ctx, p, func(config *leaderelection.Config) {
		config.Supervise(func(mark string) lease.Ledger {
			l := &book{child: p, mark: mark}
			p.World().State.Store(p.Name, l)
			return l
		})
	})
}

// runGuarded is a program with an elector and a guarded client.
func runGuarded(ctx context.Context, p *sim.Process, configure func(*leaderelection.Config)) {
	w := p.World()
	config := leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: p.Name, Clock: p.Clock, OnLost: func(error) { p.Exit() },
	}
	configure(&config)
	elector, err := leaderelection.New(kubernetes.NewForConfigOrDie(p.Config()), config)
	if err != nil {
		panic(err)
	}
	w.Server.Observe(func(c apisim.Change) { judge(w, c) })
	// The guard's requests have a connection of their own, for which the process need not live.
	guarded := w.Server.Client(p.Name + " through the network").Config()
	guarded.Wrap(slowNetwork)
	guarded.Wrap(elector.WrapTransport)
	client := kubernetes.NewForConfigOrDie(guarded)
	if err := elector.Run(ctx, func(ctx context.Context) error {
		var writing sync.WaitGroup
		defer writing.Wait()
		term, _ := leaderelection.TermFrom(ctx)
		begins, _ := strconv.ParseUint(term.Token, 10, 64)
		w.State.Store("token", begins)
		p.Begin("l")
		defer p.End("l")
		for {
			tick := p.Clock.NewTimer(500 * time.Millisecond)
			select {
			case <-ctx.Done():
				tick.Stop()
				return ctx.Err()
			case <-tick.C():
				if elector.IsLeader() {
					p.Act("l")
					writing.Go(func() { write(ctx, client, term.Token) })
				}
			}
		}
	}); err != nil && ctx.Err() == nil {
		p.Fail("Run: %v", err)
	}
}

// slowNetwork holds each request for almost a margin at most. What it has goes on if its sender dies.
func slowNetwork(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		seed := uint64(time.Now().UnixNano())
		<-time.After(time.Duration(rand.New(rand.NewPCG(seed, 0)).Int64N(int64(underWay))))
		return base.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	})
}

const (
	tokenLabel = "token"
	sentLabel  = "sent"
)

// write is an act of a leader. It says when it was sent, and in which term.
func write(ctx context.Context, client kubernetes.Interface, token string) {
	_, _ = client.CoreV1().ConfigMaps("ns").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "act-",
		Labels:       map[string]string{tokenLabel: token, sentLabel: strconv.FormatInt(time.Now().UnixNano(), 10)},
	}}, metav1.CreateOptions{})
}

// judge fails the schedule if a leader's write arrives in the term of a later one. It is called in
// the server's lock.
func judge(w *sim.World, c apisim.Change) {
	if c.After == nil || c.After.GetKind() != "ConfigMap" {
		return
	}
	labels := c.After.GetLabels()
	token, _ := strconv.ParseUint(labels[tokenLabel], 10, 64)
	sent, _ := strconv.ParseInt(labels[sentLabel], 10, 64)
	if latest, ok := w.State.Load("token"); ok && latest.(uint64) > token &&
		time.Since(time.Unix(0, sent)) < underWay {
		for _, worker := range w.Working("l") {
			worker.Fail("works in term %v, and a write of term %d arrives, %v after it was sent", latest, token,
				time.Since(time.Unix(0, sent)))
		}
	}
}
