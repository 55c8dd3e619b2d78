package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// election is a scenario in which real electors contend for one Lease.
func election() sim.Scenario {
	return sim.Scenario{
		MinReplicas: 2, MaxReplicas: 5, RateError: 0.1, Unaware: 1200 * time.Millisecond,
		Duration: 8 * time.Minute, Quiet: 2 * time.Minute,
		Main:      func(ctx context.Context, p *sim.Process) { runReplica(ctx, p, nil, p.Exit) },
		Check:     func(w *sim.World) error { return w.ExactlyOne("l") },
		Interfere: meddle,
	}
}

// sickElection is one in which work is not healthy now and then, as long as things go wrong.
func sickElection() sim.Scenario {
	s := election()
	begin := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the time in a bubble
	s.Main = func(main context.Context, p *sim.Process) {
		runReplica(main, p, func(ctx context.Context) error {
			if time.Since(begin) < s.Duration {
				return sicken(main, ctx, p)
			}
			return nil
		}, p.Exit)
	}
	return s
}

// sicken is Healthy, by the clock, which is another in every schedule: it fails, or hangs and may be deaf to all but the end of main.
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

// runReplica is a program with an elector, which on the loss of its leadership calls onLost.
func runReplica(ctx context.Context, p *sim.Process, healthy func(context.Context) error, onLost func()) {
	client, err := kubernetes.NewForConfig(p.Config())
	if err != nil {
		panic(err)
	}
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: p.Name, Clock: p.Clock, OnLost: func(error) { onLost() },
		Healthy: healthy, Hooks: referee(p),
	})
	if err != nil {
		panic(err)
	}
	if err := elector.Run(ctx, func(ctx context.Context) error { return lead(ctx, p, elector) }); err != nil {
		p.Fail("Run: %v", err)
	}
}

// lead is work that acts as long as it is the leader, and takes its time to stop if that is all right.
func lead(ctx context.Context, p *sim.Process, elector *leaderelection.Elector) error {
	p.Begin("l")
	defer p.End("l")
	for {
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			tick.Stop()
			if elector.IsLeader() { // told to end, but not deposed
				drained := p.Clock.NewTimer(p.Drain())
				<-drained.C()
			}
			return ctx.Err()
		case <-tick.C():
			if elector.IsLeader() {
				p.Act("l")
			}
		}
	}
}

// meddle does what people do to a Lease who should not, other than deleting it.
func meddle(w *sim.World, r *rand.Rand) {
	client := kubernetes.NewForConfigOrDie(w.Server.Client("somebody").Config()).CoordinationV1().Leases("ns")
	patch := `{"metadata":{"labels":{"a":"` + strconv.Itoa(r.Int()) + `"}}}`
	if r.IntN(2) == 0 {
		patch = `{"spec":{"holderIdentity":null}}`
	}
	_, _ = client.Patch(context.Background(), "l", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
}

func TestSimulatedElections(t *testing.T) { sim.Prove(t, election(), sim.Schedules(t, 2000)) }

func TestSimulatedElectionsOfTheSick(t *testing.T) {
	sim.Prove(t, sickElection(), sim.Schedules(t, 300))
}
