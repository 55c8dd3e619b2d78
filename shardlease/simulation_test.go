package shardlease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/kube"
	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/shardlease"
	"github.com/bellwether-k8s/bellwether/shardlease/shardstate"
)

// TestSimulatedShard proves that processes of one identity never work at once, and never in an
// epoch that a sharder takes for ended. It runs one to three of them in two Pods, and a sharder.
// All of them are killed, stopped, suspended and ended, on clocks and connections that cannot be
// trusted, while somebody edits the Lease. A process ends when it loses its lease.
func TestSimulatedShard(t *testing.T) {
	writes := &counts{n: map[string]int{}}
	sim.Prove(t, shardScenario((*sim.Process).Exit, meddle, writes), sim.Schedules(t, 60))
	writes.requireAll(t, kept, bumped, taken)
}

// TestSimulatedStepDowns has work that is asked to end before the deadline, which may take longer.
func TestSimulatedStepDowns(t *testing.T) {
	writes := &counts{n: map[string]int{}}
	s := shardScenario((*sim.Process).Exit, meddle, writes)
	main := s.Main
	s.Main = func(ctx context.Context, p *sim.Process) {
		if isSharder(p) {
			main(ctx, p)
			return
		}
		runShard(ctx, p, 4*time.Second, (*sim.Process).Exit)
	}
	sim.Prove(t, s, sim.Schedules(t, 60))
	writes.requireAll(t, kept, bumped, taken)
}

// What may happen to a lease.
const (
	created = "created"
	kept    = "taken over in the same epoch"
	bumped  = "taken over in the next epoch"
	taken   = "taken by the sharder"
)

// counts is how often things have happened, in all schedules.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

// requireAll fails if something has never happened. With the race detector, there are too few
// schedules to be sure that it does.
func (c *counts) requireAll(t *testing.T, kinds ...string) {
	t.Helper()
	t.Log(c.n)
	for _, kind := range kinds {
		assert.True(t, c.n[kind] > 0 || c.n[created] < 30, "in no schedule was a lease %s", kind)
	}
}

// TestSimulatedDeletions is the same while the Lease is deleted. No process is restarted: a
// process that has not seen a holder may create the Lease at once. So a process goes on after the
// loss of its lease.
func TestSimulatedDeletions(t *testing.T) {
	writes := &counts{n: map[string]int{}}
	s := shardScenario(func(*sim.Process) {}, deleteLease, writes)
	s.Kinds = []sim.Kind{
		sim.Pausing, sim.PausingNow, sim.Latency, sim.WatchLag, sim.Partition, sim.LostRequests, sim.LostResponses,
		sim.Refused,
		sim.Throttled, sim.ClockStep, sim.Restart, sim.Compaction, sim.Interference,
	}
	sim.Prove(t, s, sim.Schedules(t, 40))
	writes.requireAll(t, kept, taken)
}

// bound is how long there may be no work while one process of the shard and the API server are
// well, whatever is written to the Lease's metadata: a request that was lost and the pause after it
// (R + R/2), the wait for a record that no process of ours wrote (D + max(D/3, 5 s)), and that for
// the sharder's (D), all by a clock that is slow by a tenth; and a second to look.
const bound = (3*time.Second*3/2+20*time.Second+15*time.Second)*11/10 + 2*time.Second

// annotateLease writes metadata of the Lease.
func annotateLease(w *sim.World) {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, time.Now().UnixNano())
	_, _ = leasesOf(w).Patch(context.Background(), key, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

// key of what the processes work on.
const key = "s"

func shardScenario(onLost func(*sim.Process), interfere func(*sim.World, *rand.Rand), writes *counts) sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 4, RateError: 0.1, Unaware: 1200 * time.Millisecond,
		Duration: 8 * time.Minute, Quiet: 2 * time.Minute,
		Odd: true, Annotate: annotateLease, Bound: bound, Candidate: func(p *sim.Process) bool { return !isSharder(p) },
		Main: func(ctx context.Context, p *sim.Process) {
			if isSharder(p) {
				runSharder(ctx, p)
			} else {
				runShard(ctx, p, 0, onLost)
			}
		},
		Check:     func(w *sim.World) error { return w.ExactlyOne(key) },
		Interfere: interfere,
		Rule: func(w *sim.World) sim.Rule {
			book := &epochBook{numbers: map[types.UID]int64{}, writes: writes}
			w.Server.Observe(book.note)
			return book.rule
		},
	}
}

func isSharder(p *sim.Process) bool { return p.Name[0] == 'a' }

// pod is that of a process: the first and the third shard are containers of one.
func pod(p *sim.Process) string { return fmt.Sprint("pod-", p.Name[0]%2) }

func leasesOf(w *sim.World) coordinationclient.LeaseInterface {
	return coordinationclient.NewForConfigOrDie(w.Server.Client("somebody").Config()).Leases("ns")
}

// runShard is a program with a shard lease.
func runShard(ctx context.Context, p *sim.Process, stepDown time.Duration, onLost func(*sim.Process)) {
	w := p.World()
	config := shardlease.Config{
		Namespace: "ns", Ring: "r", Identity: key, PodUID: pod(p), Clock: p.Clock, StepDown: stepDown,
		OnLost: func(error) { onLost(p) },
		Hooks:  shardlease.Hooks{OnWaiting: func(shardlease.HolderInfo) { w.State.Store(seen(p), true) }},
	}
	config.SetOccupy(func(name string) (func(), error) { return occupy(p, name) })
	l, err := shardlease.New(kubernetes.NewForConfigOrDie(p.Config()), config)
	if err != nil {
		panic(err)
	}
	defer w.State.Delete(seen(p))
	l.AddReleaseGate(func(context.Context) error {
		if _, unlucky := w.State.LoadAndDelete(p); unlucky { // something is still in flight
			<-p.Clock.NewTimer(p.Drain()).C()
			p.End(key)
		}
		return nil
	})
	if err := l.Run(ctx, func(ctx context.Context) error { return work(ctx, p, l) }); err != nil && ctx.Err() == nil {
		p.Fail("Run: %v", err)
	}
}

// seen is the key under which the state says that a process knows of a holder.
func seen(p *sim.Process) string { return "seen by " + p.Name }

// occupy is what the kernel does.
func occupy(p *sim.Process, name string) (release func(), err error) {
	w := p.World()
	for {
		owner, taken := w.State.LoadOrStore(name, p)
		switch {
		case !taken:
			return func() { w.State.CompareAndDelete(name, p) }, nil
		case owner.(*sim.Process).Alive():
			return nil, errors.New("taken")
		}
		w.State.CompareAndDelete(name, owner)
	}
}

// work acts as long as it is allowed to, and takes its time to stop if that is all right: half of
// that, the lease has to await.
func work(ctx context.Context, p *sim.Process, l *shardlease.Lease) error {
	term, _ := shardlease.TermFrom(ctx)
	p.World().State.Store(term.Epoch(), true)
	epoch := term.Epoch().String()
	p.Begin(key)
	p.Begin(epoch)
	for {
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			tick.Stop()
			p.End(epoch)
			cause := context.Cause(ctx)
			if errors.Is(cause, shardlease.ErrLost) && !errors.Is(cause, shardlease.ErrSteppedDown) {
				p.End(key)
				return ctx.Err()
			}
			p.World().State.Store(p, true)
			return ctx.Err()
		case <-tick.C():
			if now, err := l.Term(); err == nil {
				if now != term {
					p.Fail("works in %v while it holds another term", term.Epoch())
				}
				p.Act(key)
			}
		}
	}
}

// runSharder is a program that takes the leases of dead shards, and acts on every epoch that it
// takes for over.
func runSharder(ctx context.Context, p *sim.Process) {
	client := kubernetes.NewForConfigOrDie(p.Config())
	for ctx.Err() == nil {
		roster, err := shardstate.NewTracker(shardstate.Config{Namespace: "ns", Ring: "r"})
		if err != nil {
			panic(err)
		}
		for range 20 { // then another sharder is elected, who knows nothing yet
			look(ctx, p, client, roster)
			tick := p.Clock.NewTimer(5 * time.Second)
			select {
			case <-ctx.Done():
			case <-tick.C():
			}
			tick.Stop()
		}
	}
}

// look is one round of a sharder.
func look(ctx context.Context, p *sim.Process, client kubernetes.Interface, roster *shardstate.Tracker) {
	ctx, cancel := clock.WithTimeout(ctx, p.Clock, 10*time.Second)
	defer cancel()
	now := p.Clock.Now
	list, err := client.CoordinationV1().Leases("ns").List(ctx,
		metav1.ListOptions{LabelSelector: shardstate.Selector("r").String()})
	if err != nil || list.ResourceVersion == "" { // any JSON object decodes as an empty list
		return
	}
	var leases []*coordinationv1.Lease
	for i := range list.Items {
		leases = append(leases, &list.Items[i])
	}
	roster.List(leases, now())
	acquire := roster.State(key, now()) == shardstate.Uncertain
	var epochs []shardlease.Epoch // as records of objects name them
	p.World().State.Range(func(k, _ any) bool {
		if e, ok := k.(shardlease.Epoch); ok {
			epochs = append(epochs, e)
		}
		return true
	})
	for _, e := range epochs {
		if roster.EpochState(key, e, now()) == shardstate.EpochUnknown {
			l, err := client.CoordinationV1().Leases("ns").Get(ctx, key, metav1.GetOptions{})
			switch {
			case kube.Absent(err, coordinationv1.Resource("leases"), key):
				l = nil
			case err != nil:
				continue
			}
			roster.ObserveRead(key, e, l, now())
		}
		switch roster.EpochState(key, e, now()) {
		case shardstate.EpochEnded:
			p.Act(e.String())
		case shardstate.EpochNeedsTakeover:
			acquire = true
		case shardstate.EpochUnknown:
			p.Fail("epoch %v is newer than a lease that was read after it", e)
		}
	}
	if a, ok := roster.Takeover(key, now()); ok && acquire {
		if l, err := shardstate.TakeOver(ctx, client, a); err == nil {
			roster.Observe(l, now())
		}
	}
}

// epochBook is the rule of epochs, as the server sees what is written.
type epochBook struct {
	mu      sync.Mutex
	numbers map[types.UID]int64
	wrong   string
	writes  *counts
}

func (b *epochBook) rule(_, other *sim.Process) (violation, excuse string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if other == nil {
		return b.wrong, ""
	}
	return "overlap", ""
}

// note takes in a change.
func (b *epochBook) note(c apisim.Change) {
	if c.After == nil || c.Client == "somebody" {
		return
	}
	before, after := recordOf(c.Before), recordOf(c.After)
	e, err := shardlease.EpochOf(after.Lease())
	b.mu.Lock()
	defer b.mu.Unlock()
	last, known := b.numbers[after.UID()]
	b.numbers[after.UID()] = e.Number
	want := last
	switch {
	case c.Client[0] == 'a':
		b.writes.add(taken)
		if after.Holder() != shardlease.Sharder {
			err = errors.New("not in the sharder's name")
		}
	case after.SameTerm(before), after.Released(): // renewed, or released
	case !known:
		b.writes.add(created)
		want = 1
	case before.Holder() == key && before.Ours(): // neither released nor taken
		b.writes.add(kept)
	default:
		b.writes.add(bumped)
		want = last + 1
	}
	if b.wrong == "" && (err != nil || e.Number != want) {
		b.wrong = fmt.Sprintf("%s wrote epoch %d after %d, not %d: %v", c.Client, e.Number, last, want, err)
	}
}

func recordOf(o *apisim.Object) lease.Record {
	if o == nil {
		return lease.Record{}
	}
	l := &coordinationv1.Lease{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Content(), l); err != nil {
		panic(err)
	}
	return lease.RecordOf(l)
}

// meddle does what people do to a Lease who should not, other than deleting it.
func meddle(w *sim.World, r *rand.Rand) {
	edits := []string{
		`{"spec":{"holderIdentity":"thief"}}`, `{"spec":{"holderIdentity":null}}`, `{"spec":{"holderIdentity":"s"}}`,
		`{"spec":{"holderIdentity":"` + shardlease.Sharder + `"}}`, `{"metadata":{"labels":null}}`,
		`{"metadata":{"annotations":{"ring.bellwether.dev/incarnation":null}}}`,
		`{"metadata":{"annotations":{"a":"b"}}}`,
	}
	_, _ = leasesOf(w).Patch(context.Background(), key, types.MergePatchType, []byte(edits[r.IntN(len(edits))]),
		metav1.PatchOptions{})
}

// deleteLease deletes the Lease if every shard knows of a holder.
func deleteLease(w *sim.World, _ *rand.Rand) {
	workers := w.Working(key)
	know := 0
	w.State.Range(func(k, _ any) bool {
		name, ok := k.(string)
		if ok && len(name) > 8 && name[:8] == "seen by " &&
			!slices.ContainsFunc(workers, func(p *sim.Process) bool { return seen(p) == name }) {
			know++
		}
		return true
	})
	if know+len(workers) == w.Replicas()-1 {
		_ = leasesOf(w).Delete(context.Background(), key, metav1.DeleteOptions{})
	}
}
