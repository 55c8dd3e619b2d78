// Command replica is a fencer like that of the example, with devices of a test: a rack, or those
// that real fence agents speak to. It numbers and prints what it does to the world during a fence,
// and can be told to die at one of these effects: DIE_AFTER=3 has it killed when the third has
// happened, DIE_AFTER=3,before when it is about to, and DIE_AFTER="switch off" after that.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := flag.String("kubeconfig", "", "path")
	namespace := flag.String("namespace", "", "of the Lease, which has the same name, and of the configuration")
	identity := flag.String("identity", "", "of this replica")
	host := flag.String("host", "", "node that it runs on")
	machine := flag.String("machine", "", "the only node whose record it sees: those of other tests are none of its "+
		"business; empty: all")
	label := flag.String("label", "", "of the nodes that it may fence")
	rack := flag.String("rack", "", "URL of the devices; empty: real fence agents")
	var environment []string
	flag.Func("environment", "KEY=VALUE, of real fence agents", func(variable string) error {
		environment = append(environment, variable)
		return nil
	})
	lease := flag.Duration("lease", 5*time.Second, "how long a leader stays one without renewal")
	timeout := flag.Duration("timeout", 2*time.Second, "of a command to a device")
	settle := flag.Duration("settle", time.Second, "what devices need at least until a command has landed")
	storage := flag.String("storage", "", "METHOD=DRIVER: the storage that a node cannot reach while the device of "+
		"the method is off")
	effects := flag.String("effects", "", "file of what it has done to the world, for the next process to count on")
	limits := defaultLimits
	flag.Func("limits", "of the policy, as JSON",
		func(text string) error { return json.Unmarshal([]byte(text), &limits) })
	var triggers []api.NodeCondition
	flag.Func("trigger", "TYPE=STATUS, a condition that nodes are fenced for", func(text string) error {
		kind, status, _ := strings.Cut(text, "=")
		triggers = append(triggers,
			api.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status)})
		return nil
	})
	flag.Parse()
	log := zap.Must(zap.NewDevelopment())
	rc, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	rc.WarningHandler = rest.NoWarnings{}
	leases, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(rc))
	if err != nil {
		return err
	}
	elector, err := leaderelection.New(leases, leaderelection.Config{
		Namespace: *namespace, Name: *namespace, Identity: *identity, LeaseDuration: *lease, Logger: log,
	})
	if err != nil {
		return err
	}
	deeds, err := newEffects(os.Getenv("DIE_AFTER"), *effects)
	if err != nil {
		return err
	}
	rc.QPS = -1
	rc.Wrap(elector.WrapTransport)
	record := ""
	if *machine != "" {
		record = v1alpha1.Name(*machine)
	}
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { return observed{deeds, record, next} })
	kube, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	defer broadcaster.Shutdown()
	selector,
		err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: map[string]string{*label: "true"}})
	if err != nil {
		return err
	}
	devices, err := reach(*rack, environment, log)
	if err != nil {
		return err
	}
	settings := settings(*namespace, *host, selector, elector, agents{devices, deeds, *settle}, log,
		broadcaster.NewRecorder(scheme.Scheme, "fencer"))
	settings.CommandTimeout, settings.Limits, settings.Nodes.Triggers = *timeout, limits, triggers
	if method, driver, found := strings.Cut(*storage, "="); found {
		settings.Storage = map[string]api.Storage{method: {Drivers: []string{driver}}}
	}
	controller, err := fencing.New(kube, dyn, settings)
	if err != nil {
		return err
	}
	return elector.Run(ctx, controller.Run)
}

// defaultLimits are for tests that do not wait for long, and fence the same few nodes all the time.
var defaultLimits = api.Limits{
	Observation: time.Millisecond, CoolDown: time.Second, MaxRepeats: 1000,
	MaxStarts: 1000,
}

func settings(namespace, host string, nodes labels.Selector, elector *leaderelection.Elector, devices fencing.Agents,
	log *zap.Logger, recorder events.EventRecorder,
) fencing.Config {
	return fencing.Config{
		Namespace: namespace, Node: host, Leadership: elector, Agents: devices,
		Nodes:         api.NodeSelector{Selector: nodes},
		DetachTimeout: 5 * time.Second, RestartDelay: time.Second,
		Logger: log, Events: recorder,
	}
}

// reach returns what speaks to the devices.
func reach(url string, environment []string, log *zap.Logger) (fencing.Agents, error) {
	if url != "" {
		return rack{remoteagent.Client{URL: url}}, nil
	}
	return fenceagents.New(fenceagents.Config{Logger: log, Environment: environment})
}

// agents are those whose commands are counted, and whose devices are known to be quick.
type agents struct {
	fencing.Agents
	deeds  *effects
	settle time.Duration
}

func (a agents) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	metadata, err := a.Agents.Metadata(ctx, name)
	metadata.MinSettle = a.settle
	return metadata, err
}

func (a agents) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	defer a.deeds.begin("switch " + string(command.Action))()
	return a.Agents.Switch(ctx, target, command)
}

// rack is one in another process.
type rack struct{ remoteagent.Client }

func (rack) Metadata(_ context.Context, name string) (agent.Metadata, error) {
	if name != "fence_rack" {
		return agent.Metadata{}, fmt.Errorf("there is no agent %q", name)
	}
	return agent.Metadata{
		Name: name, OffIsProof: true,
		Parameters: []agent.ParameterSpec{
			{Name: "ip", Type: agent.TypeString, Required: true},
			{Name: "plug", Type: agent.TypeString, Required: true},
		},
	}, nil
}
