package sharder_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/sharder"
)

// TestSimulatedMigration runs replicas of two releases. One release is sharded. A leader of the
// other release ends the ring, and then works on all objects alone. So a release is rolled out,
// back, and out again while faults occur.
func TestSimulatedMigration(t *testing.T) {
	s := sharding()
	s.Main = runEitherRelease
	sim.Prove(t, s, schedules(t, 40))
}

// runEitherRelease runs a replica of the sharded release or of the one before. In the end all
// replicas are sharded.
func runEitherRelease(ctx context.Context, p *sim.Process) {
	began, _ := p.World().State.LoadOrStore("began", time.Now())
	left := time.Until(began.(time.Time).Add(sharding().Duration))
	if left <= 0 || p.Clock.Now().Wall.UnixNano()%3 == 0 {
		runReplica(ctx, p)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	runAlone(ctx, p)
}

// runAlone runs a replica of a program whose leader works on all objects.
func runAlone(ctx context.Context, p *sim.Process) {
	elector := must(leaderelection.New(kubernetes.NewForConfigOrDie(p.Config()), leaderelection.Config{
		Namespace: "ns", Name: "sharder", Identity: p.Name, Clock: p.Clock, OnLost: func(error) { p.Exit() },
	}))
	config := p.Config()
	config.Timeout = 20 * time.Second
	config.Wrap(elector.WrapTransport)
	clients := kubernetes.NewForConfigOrDie(config)
	s := must(sharder.New(clients, metadata.NewForConfigOrDie(config), mapper(), sharder.Config{
		Ring: simulatedRing, Namespace: "ns", Resources: configMaps, ScanInterval: scanInterval, GCPeriod: time.Minute,
	}.WithClock(p.Clock)))
	err := elector.Run(ctx, func(ctx context.Context) error {
		if err := s.StripLabels(ctx); err != nil {
			return err
		}
		return workOnAll(ctx, p, elector, clients.CoreV1().ConfigMaps("ns"))
	})
	if err != nil && ctx.Err() == nil {
		p.Fail("elector: %v", err)
	}
}

// workOnAll works on all objects again and again until ctx ends.
func workOnAll(ctx context.Context, p *sim.Process, elector *leaderelection.Elector,
	client coreclient.ConfigMapInterface,
) error {
	for ctx.Err() == nil {
		list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "user"})
		if err == nil {
			var all sync.WaitGroup
			for i := range list.Items {
				all.Go(func() { workAlone(ctx, p, elector, client, &list.Items[i]) })
			}
			all.Wait()
		}
		pause := p.Clock.NewTimer(2 * time.Second)
		select {
		case <-ctx.Done():
			pause.Stop()
		case <-pause.C():
		}
	}
	return ctx.Err()
}

func workAlone(ctx context.Context, p *sim.Process, elector *leaderelection.Elector,
	client coreclient.ConfigMapInterface, o *corev1.ConfigMap,
) {
	if !elector.IsLeader() {
		return
	}
	key := string(o.UID)
	p.Begin(key)
	defer p.End(key)
	for range 3 {
		tick := p.Clock.NewTimer(500 * time.Millisecond)
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C():
			if !elector.IsLeader() {
				return
			}
			p.Act(key)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, _ = client.Patch(ctx, o.Name, types.MergePatchType, []byte(`{"data":{"by":"`+p.Name+`"}}`),
		metav1.PatchOptions{})
}
