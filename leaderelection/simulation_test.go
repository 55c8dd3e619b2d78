package leaderelection_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
	"github.com/bellwether-k8s/bellwether/internal/proof"
	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestSimulatedElections is the proof of mutual exclusion: real electors, whose processes are
// killed, stopped, suspended and told to end, on clocks and connections that cannot be trusted,
// while somebody edits the Lease. A process ends when it loses its leadership.
func TestSimulatedElections(t *testing.T) {
	sim.Prove(t, election((*sim.Process).Exit, meddle(byRenewal)), sim.Schedules(t, 400))
}

// TestSimulatedDeletions is the same while the Lease is deleted. No process is restarted: a
// candidate that has not seen a holder may create the Lease at once. So a process goes on after the
// loss of its leadership.
func TestSimulatedDeletions(t *testing.T) {
	s := election(func(*sim.Process) {}, deleteLease)
	s.Kinds = []sim.Kind{
		sim.Pausing, sim.PausingNow, sim.Latency, sim.WatchLag, sim.Partition, sim.LostRequests, sim.LostResponses,
		sim.Refused,
		sim.Throttled, sim.ClockStep, sim.Restart, sim.Compaction, sim.Interference,
	}
	sim.Prove(t, s, sim.Schedules(t, 150))
}

// TestSimulatedElectionsOfTheSick has work that is not healthy now and then.
func TestSimulatedElectionsOfTheSick(t *testing.T) {
	sim.Prove(t, sickElection(), sim.Schedules(t, 80))
}

// bound is how long there may be no leader while one candidate and the API server are well,
// whatever is written to the Lease's metadata: a request that was lost and the pause after it (R +
// R/2), and the wait for a record of another elector (D + max(D/3, 5 s)), all by a clock that is
// slow by a tenth; and a second to look.
const bound = (3*time.Second*3/2+20*time.Second)*11/10 + 2*time.Second

// annotateLease writes metadata of the Lease.
func annotateLease(w *sim.World) {
	patchLease(w, `{"metadata":{"annotations":{"example.com/seen":"`+strconv.Itoa(int(time.Now().UnixNano()))+`"}}}`)
}

// election is a scenario in which electors contend for one Lease.
func election(onLost func(*sim.Process), interfere func(*sim.World, *rand.Rand)) sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 5, RateError: 0.1, Unaware: 1200 * time.Millisecond,
		Duration: 8 * time.Minute, Quiet: 2 * time.Minute,
		Odd: true, Annotate: annotateLease, Bound: bound,
		Main:      func(ctx context.Context, p *sim.Process) { runReplica(ctx, p, nil, onLost) },
		Check:     func(w *sim.World) error { return w.ExactlyOne("l") },
		Interfere: interfere,
	}
}

func leasesOf(w *sim.World) coordinationclient.LeaseInterface {
	return coordinationclient.NewForConfigOrDie(w.Server.Client("somebody").Config()).Leases("ns")
}

// sickElection is one in which work is not healthy now and then, as long as things go wrong.
func sickElection() sim.Scenario {
	s := election(nil, meddle(byDeadline))
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble
	s.Main = func(main context.Context, p *sim.Process) {
		runReplica(main, p, func(ctx context.Context) error {
			if time.Since(begin) < s.Duration {
				return sicken(main, ctx, p)
			}
			return nil
		}, (*sim.Process).Exit)
	}
	return s
}

// sicken is Healthy, by the clock, which is another in every schedule: it fails, or hangs and may
// be deaf to all but the end of main.
func sicken(main, ctx context.Context, p *sim.Process) error {
	const phase = 10 * time.Second
	switch now := p.Clock.Now().Wall; rand.New(rand.NewPCG(uint64(now.UnixNano()/int64(phase)), 0)).IntN(8) {
	case 0, 1:
		return errSick
	case 2:
		<-ctx.Done()
	case 3:
		hang := p.Clock.NewTimer(2 * phase)
		defer hang.Stop()
		select {
		case <-main.Done():
		case <-hang.C():
		}
	}
	return nil
}

// referee sees to it that the hooks tell of one term after the other.
func referee(p *sim.Process) leaderelection.Hooks {
	leading := ""
	return leaderelection.Hooks{
		OnStartedLeading: func(term leaderelection.Term) {
			if leading != "" {
				p.Fail("told of the start of %v during %v", term, leading)
			}
			leading = term.Token
		},
		OnStoppedLeading: func(term leaderelection.Term, _ error) {
			if leading != term.Token {
				p.Fail("told of the end of %v during %v", term, leading)
			}
			leading = ""
		},
		OnRenewal: func(time.Duration, error) { leading += "" }, // the race detector would see it beside the others
	}
}

// runReplica is a program with an elector.
func runReplica(ctx context.Context, p *sim.Process, healthy func(context.Context) error, onLost func(*sim.Process)) {
	runElector(ctx, p, leaderelection.Config{Healthy: healthy}, onLost, lead)
}

// runElector is a program with an elector and this work.
func runElector(ctx context.Context, p *sim.Process, c leaderelection.Config, onLost func(*sim.Process),
	work func(context.Context, *sim.Process, *leaderelection.Elector) error,
) {
	w := p.World()
	c.Namespace, c.Name, c.Identity, c.Clock, c.Hooks = "ns", "l", p.Name, p.Clock, referee(p)
	c.OnLost = func(err error) {
		if errors.Is(err, lease.ErrTaken) && holder(w) == p.Name {
			p.Fail("has given up what it holds: %v", err)
		}
		onLost(p)
	}
	elector, err := leaderelection.New(kubernetes.NewForConfigOrDie(p.Config()), c)
	if err != nil {
		panic(err)
	}
	w.State.Store(p, elector)
	defer w.State.Delete(p)
	if err := elector.Run(ctx, func(ctx context.Context) error { return work(ctx, p, elector) }); err != nil &&
		ctx.Err() == nil {
		p.Fail("Run: %v", err)
	}
}

// lead is work that acts as long as it is the leader, and takes its time to stop if that is all
// right.
func lead(ctx context.Context, p *sim.Process, elector *leaderelection.Elector) error {
	term, _ := leaderelection.TermFrom(ctx)
	token, _ := strconv.ParseUint(term.Token, 10, 64)
	if before, ok := p.World().State.Swap("token", token); ok && before.(uint64) >= token {
		p.Fail("begins a term with token %d after %d", token, before)
	}
	p.Begin("l")
	defer p.End("l")
	for {
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			tick.Stop()
			if !errors.Is(context.Cause(ctx), leaderelection.ErrLost) {
				<-p.Clock.NewTimer(p.Drain()).C()
			}
			return ctx.Err()
		case <-tick.C():
			if elector.IsLeader() {
				p.Act("l")
			}
		}
	}
}

// meddle does what people do to a Lease who should not, other than deleting it. A leader must
// notice a theft within so many tenths of a second.
func meddle(patience int) func(w *sim.World, r *rand.Rand) {
	return func(w *sim.World, r *rand.Rand) {
		if r.IntN(3) > 0 {
			patchLease(w, harmless(r))
			return
		}
		leaders := w.Working("l")
		if patchLease(w, `{"spec":{"holderIdentity":"thief"}}`) && len(leaders) == 1 {
			mustNotice(w, leaders[0], patience)
		}
	}
}

// A watch may still be late with what was said while it lagged. The next renewal, after 3 s by a
// slow clock, is not; and if work is too sick for renewals, the deadline is not, after 12 s.
const (
	byRenewal  = 45
	byDeadline = 140
)

// harmless is an edit that ends no term: of a label, or of the holder, which is
// removed.
func harmless(r *rand.Rand) string {
	if r.IntN(2) == 0 {
		return `{"metadata":{"labels":{"a":"` + strconv.Itoa(r.Int()) + `"}}}`
	}
	return `{"spec":{"holderIdentity":null}}`
}

func patchLease(w *sim.World, patch string) (done bool) {
	_, err := leasesOf(w).Patch(context.Background(), "l", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err == nil
}

// mustNotice fails if a leader works on for so many tenths of a second after its record was taken,
// while nothing else is wrong.
func mustNotice(w *sim.World, leader *sim.Process, patience int) {
	switch {
	case !w.Calm() || !slices.Contains(w.Working("l"), leader):
	case patience == 0:
		leader.Fail("works on although its record was taken")
	default:
		time.AfterFunc(100*time.Millisecond, func() { mustNotice(w, leader, patience-1) })
	}
}

// deleteLease deletes the Lease if every replica knows of a leader.
func deleteLease(w *sim.World, _ *rand.Rand) {
	know := 0
	w.State.Range(func(_, value any) bool {
		if elector, ok := value.(*leaderelection.Elector); ok {
			if _, ok := elector.Leader(); ok {
				know++
			}
		}
		return true
	})
	if know == w.Replicas() {
		_ = leasesOf(w).Delete(context.Background(), "l", metav1.DeleteOptions{})
	}
}

// holder is whom the record names, whatever anybody knows of it.
func holder(w *sim.World) string {
	l, err := leasesOf(w).Get(context.Background(), "l", metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return ptr.Deref(l.Spec.HolderIdentity, "")
}

// TestSimulatedSlowAnswers answers a leader's renewals late, in time for it or too late, and then
// no more. An elector that counts from the answer outlives its record.
func TestSimulatedSlowAnswers(t *testing.T) {
	proof.Simulation(t)
	s := election((*sim.Process).Exit, nil)
	s.Duration = 80 * time.Second
	for _, delay := range []time.Duration{2800 * time.Millisecond, 4900 * time.Millisecond, 9500 * time.Millisecond} {
		for trial := range 30 {
			r := sim.Play(t, s, sim.Plan{
				Replicas: []sim.Replica{{Rate: 0.9}, {Rate: 1.1, Start: time.Second}},
				Faults: []sim.Fault{
					{Kind: sim.Latency, At: 20 * time.Second, For: time.Minute, Amount: delay / 2},
					{
						Kind: sim.Partition, At: 22*time.Second + time.Duration(trial)*300*time.Millisecond,
						For: 40 * time.Second,
					},
				},
			}, nil)
			require.Empty(t, r.Violation, "answers after %v, trial %d", delay, trial)
			require.Equal(t, 2, r.Begun, "the other has taken over")
		}
	}
}

// TestSimulatedHandovers ends leaders whose work takes five seconds to stop.
func TestSimulatedHandovers(t *testing.T) {
	proof.Simulation(t)
	const handovers, every = 100, 20 * time.Second
	s := election((*sim.Process).Exit, nil)
	s.Duration = handovers * every
	plan := sim.Plan{Replicas: []sim.Replica{{Rate: 1}, {Rate: 1}, {Rate: 1}}}
	for i := range handovers {
		plan.Faults = append(plan.Faults, sim.Fault{
			Kind: sim.Terminate, At: time.Duration(i)*every + every/2, For: every / 2, Replica: sim.Worker,
			Amount: 5 * time.Second,
		})
	}
	r := sim.Play(t, s, plan, nil)
	require.Empty(t, r.Violation)
	require.Equal(t, handovers+1, r.Begun)
}
