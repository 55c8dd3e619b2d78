package live

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var (
	//go:embed agent.sh
	agentScript []byte
	//go:embed agent.xml
	agentMetadata []byte
)

// commissioned is the machine that is.
const commissioned = "metal-1"

// fencers are replicas of examples/fencer, and machines that fail.
type fencers struct {
	crew
	machines map[string]*machine
}

func playFencers(ctx context.Context, s *stage) error {
	f := &fencers{crew{stage: s, job: Fencer, processes: map[string]*e2e.Process{}}, map[string]*machine{}}
	if err := f.prepare(ctx); err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	ctx, end := context.WithCancel(ctx)
	for _, m := range f.machines {
		running.Go(func() error { return m.run(ctx) })
	}
	running.Go(func() error {
		defer end()
		for _, event := range []func(context.Context) error{f.begin, f.commission, f.hang, f.handOver, f.breakDevice} {
			if err := errors.Join(event(ctx), sleep(ctx, calm)); err != nil {
				return err
			}
		}
		return nil
	})
	return running.Wait()
}

// prepare configures how machines are fenced, as examples/fencer/configuration.yaml does.
func (f *fencers) prepare(ctx context.Context) error {
	agents := filepath.Join(f.dir, "agents")
	plugs := filepath.Join(agents, "plugs")
	if err := errors.Join(os.MkdirAll(plugs, 0o700),
		os.WriteFile(filepath.Join(agents, "fence_example"), agentScript, 0o700),
		os.WriteFile(filepath.Join(agents, "metadata.xml"), agentMetadata, 0o600)); err != nil {
		return err
	}
	for name, data := range map[string]map[string]string{
		"fence-config-type-metal": {
			"config.properties": "node_name=[NODE_NAME]\nisolation=mark-unschedulable\n" +
				"power_management=bmc-off bmc-on\nrecovery=mark-schedulable\n" +
				"not_ready_for=2s\npower_wait=2s\nretries=1\nrestarts=0\n",
			"fence-method-bmc-off": "template=fence-method-template-bmc\nplug={{.NodeName}}\naction=off\n",
			"fence-method-bmc-on":  "template=fence-method-template-bmc\nplug={{.NodeName}}\naction=on\n",
		},
		"fence-method-template-bmc": {"template.properties": "agent_name=fence_example\nip=bmc\nsettle=10s\n"},
	} {
		_, err := f.client.CoreV1().ConfigMaps(Namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	for _, name := range []string{"metal-1", "metal-2", "metal-3", "metal-4", "metal-5"} {
		m, err := newMachine(ctx, f.client, plugs, name, "metal")
		if err != nil {
			return err
		}
		f.machines[name] = m
	}
	content, err := f.server.Kubeconfig(f.job, Namespace)
	kubeconfig, err := f.kubeconfig(f.job, content, err)
	f.args = []string{
		"-kubeconfig", kubeconfig, "-namespace", Namespace, "-outside-cluster", "-agents", agents,
		"-lease-duration", leaseDuration.String(), "-observation", leaseDuration.String(), "-check-interval", "5s",
		"-max-concurrent", "2",
	}
	return err
}

// begin starts two fencers, and waits until the leader has read all devices.
func (f *fencers) begin(ctx context.Context) error {
	f.happened("p and q start")
	return errors.Join(f.launch(ctx, "p", "q"), f.checked(ctx))
}

// commission has a fencer prove that a device is that of its machine. It continues in what follows.
func (f *fencers) commission(ctx context.Context) error {
	m := f.machines[commissioned]
	f.happened(m.name + " is commissioned")
	if err := f.patch(ctx, m.name, fmt.Sprintf(`{"spec":{"unschedulable":true},"metadata":{"annotations":{%q:%q}}}`,
		v1alpha1.AnnotationCommission, m.bootID())); err != nil {
		return err
	}
	return f.await(ctx, "the commission has begun", func(context.Context) (bool, error) {
		return f.reported("fences", "phase", string(v1alpha1.PhaseCommissioning)) >= 1, nil
	})
}

// hang has another machine hang, and waits until its fence and the commission have ended.
func (f *fencers) hang(ctx context.Context) error {
	const lost = "metal-2"
	f.happened(lost + " hangs")
	f.machines[lost].hung.Store(true)
	if err := f.await(ctx, commissioned+" is commissioned, and "+lost+" back", func(context.Context) (bool, error) {
		if f.reported("commissions_total", "result", "error") > 0 {
			return false, errors.New("live: the commission has failed")
		}
		return f.reported("commissions_total", "result", "ok") >= 1 && f.reported("recovery_duration_seconds") >= 1, nil
	}); err != nil {
		return err
	}
	return f.patch(ctx, commissioned, `{"spec":{"unschedulable":false}}`)
}

// handOver ends the leader, as a rollout does.
func (f *fencers) handOver(ctx context.Context) error {
	leaving, err := f.led(ctx)
	if err != nil {
		return err
	}
	f.happened(leaving + ", the leader: kill -TERM")
	return errors.Join(f.end(ctx, leaving), f.checked(ctx))
}

// breakDevice has a BMC not answer any more, and then its machine hang.
func (f *fencers) breakDevice(ctx context.Context) error {
	const lost = "metal-3"
	f.happened("the BMC of " + lost + " does not answer any more")
	if err := os.WriteFile(f.machines[lost].plug+".dead", nil, 0o600); err != nil {
		return err
	}
	if err := f.await(ctx, lost+" cannot be fenced", func(context.Context) (bool, error) {
		return f.reported("checked_nodes", "ready", "false") >= 1, nil
	}); err != nil {
		return err
	}
	f.happened(lost + " hangs")
	f.machines[lost].hung.Store(true)
	return f.await(ctx, "the fence of "+lost+" waits for an operator", func(context.Context) (bool, error) {
		return f.reported("blocked_fences", "reason", "NotConfigured") == 1, nil
	})
}

// checked waits until the leader has read all devices.
func (f *fencers) checked(ctx context.Context) error {
	return f.await(ctx, "all devices were read", func(context.Context) (bool, error) {
		return f.reported("checked_nodes", "ready", "true") == float64(len(f.machines)), nil
	})
}

func (f *fencers) patch(ctx context.Context, node, patch string) error {
	_, err := f.client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// reported is a value of the leader.
func (f *fencers) reported(metric string, labels ...string) float64 {
	return f.scraper.value(f.target(f.leader()), "bellwether_fencing_"+metric, labels...)
}
