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
		Main:      func(ctx context.Context, p *sim.Process) { runReplica(ctx, p, p.Exit) },
		Check:     func(w *sim.World) error { return w.ExactlyOne("l") },
		Interfere: meddle,
	}
}

// runReplica is a program with an elector, which on the loss of its leadership calls onLost.
func runReplica(ctx context.Context, p *sim.Process, onLost func()) {
	client, err := kubernetes.NewForConfig(p.Config())
	if err != nil {
		panic(err)
	}
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: "ns", Name: "l", Identity: p.Name, Clock: p.Clock, OnLost: func(error) { onLost() },
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
