package devices_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

const (
	// commandTimeout is how long an agent may take: many of them run at the same time.
	commandTimeout = 10 * time.Second
	// settle is how long devices are given to carry out a command. Those of the lab are done when
	// they answer, unless they are made to lie.
	settle = 2 * time.Second
)

// start starts a fencer with real agents on the spare node.
func (s *site) start(env ...string) *e2e.Process {
	s.t.Helper()
	program, err := shared.Program(s.t.Context(), "../replica")
	require.NoError(s.t, err)
	kubeconfig, err := shared.Kubeconfig(shared.User(s.user()))
	require.NoError(s.t, err)
	s.replicas++
	name := fmt.Sprintf("%s-%d", s.namespace, s.replicas)
	arguments := []string{
		"-kubeconfig", kubeconfig, "-namespace", s.namespace, "-identity", name, "-host", spareNode, "-machine", s.node,
		"-label", s.namespace,
		"-effects", filepath.Join(s.t.TempDir(), "effects"), "-lease", "10s", "-timeout", s.timeout.String(),
		"-storage", methodFabricOff + "=" + storageDriver,
	}
	for _, variable := range s.environment {
		arguments = append(arguments, "-environment", variable)
	}
	p, err := shared.Run(e2e.Command{Name: name, Path: program, Env: env, Args: arguments})
	require.NoError(s.t, err)
	var watching sync.WaitGroup
	ctx, done := context.WithCancel(s.t.Context())
	watching.Go(func() {
		for {
			// A machine that many tests share may be too slow for a leader to renew in time. A
			// kubelet would restart it.
			if exit, err := p.Wait(ctx); err != nil || exit.Code != lostLeadership || p.Restart() != nil {
				return
			}
		}
	})
	s.t.Cleanup(func() {
		done()
		watching.Wait()
		_ = p.Kill()
	})
	return p
}

// lostLeadership is how a fencer ends that does not lead any more.
const lostLeadership = 75

// controller is one in this process, which believes that it leads.
type controller struct {
	t     testing.TB
	end   context.CancelFunc
	ended chan error
}

// lead starts a controller that asks no election.
func (s *site) lead() *controller {
	s.t.Helper()
	config := shared.User(s.user())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return oneRecord{v1alpha1.Name(s.node), next} })
	return s.leadBy(config, nil)
}

// leadBy starts one with other settings, whose requests take a way of their own.
func (s *site) leadBy(config *rest.Config, change func(*fencing.Config)) *controller {
	s.t.Helper()
	config.WarningHandler = rest.NoWarnings{}
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(s.t, err)
	dyn, err := dynamic.NewForConfig(config)
	require.NoError(s.t, err)
	selector,
		err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{
		MatchLabels: map[string]string{s.namespace: "true"},
	})
	require.NoError(s.t, err)
	settings := fencing.Config{
		Namespace: s.namespace, Node: spareNode, Leadership: always{}, Agents: newAgents(s.t, s.environment),
		Nodes:         api.NodeSelector{Selector: selector},
		Limits:        api.Limits{Observation: time.Millisecond, CoolDown: time.Second},
		DetachTimeout: 5 * time.Second, RestartDelay: time.Second, CommandTimeout: s.timeout,
	}
	if change != nil {
		change(&settings)
	}
	c, err := fencing.New(kube, dyn, settings)
	require.NoError(s.t, err)
	ctx, end := context.WithCancel(s.t.Context())
	running := &controller{s.t, end, make(chan error, 1)}
	go func() { running.ended <- c.Run(ctx) }()
	s.t.Cleanup(end)
	return running
}

// stop returns when the controller has ended.
func (c *controller) stop() {
	c.t.Helper()
	c.end()
	require.NoError(c.t, <-c.ended)
}

// oneRecord is a client that sees one NodeFence: those of other tests are none of its business.
type oneRecord struct {
	name string
	next http.RoundTripper
}

func (o oneRecord) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/nodefences") {
		r = r.Clone(r.Context())
		query := r.URL.Query()
		query.Set("fieldSelector", "metadata.name="+o.name)
		r.URL.RawQuery = query.Encode()
	}
	return o.next.RoundTrip(r)
}

// always is a leadership that does not end.
type always struct{}

func (always) Remaining() time.Duration { return time.Minute }

// quick are agents whose devices are known to carry out a command at once.
type quick struct{ *fenceagents.Agents }

func newAgents(t testing.TB, environment []string) quick {
	t.Helper()
	agents, err := fenceagents.New(fenceagents.Config{Environment: environment})
	require.NoError(t, err)
	return quick{agents}
}

func (q quick) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	metadata, err := q.Agents.Metadata(ctx, name)
	metadata.MinSettle = time.Second
	return metadata, err
}

// checked waits until a fencer has read the machine's devices, and found that it could fence it, or
// that it could not.
func (s *site) checked(fenceable corev1.ConditionStatus) {
	s.t.Helper()
	s.eventually("the machine's devices are checked: "+string(fenceable),
		func() bool { return s.condition("FenceReady").Status == fenceable })
}

// stop ends a fencer, and requires that its rights were enough.
func (s *site) stop(p *e2e.Process) {
	s.t.Helper()
	if err := p.Terminate(); !errors.Is(err, os.ErrProcessDone) { // it may have lost its leadership at this moment
		require.NoError(s.t, err)
	}
	exit := s.exit(p)
	require.Contains(s.t, []int{0, lostLeadership}, exit.Code, "%v: %s", exit, s.log(p))
	for _, wrong := range []string{"forbidden", "not allowed"} {
		require.NotContains(s.t, s.log(p), wrong, "the rights of the example are not enough")
	}
}

// requireKilled waits until a fencer has killed itself.
func (s *site) requireKilled(p *e2e.Process) {
	s.t.Helper()
	var exit e2e.Exit
	s.eventually("the fencer has died", func() bool {
		exit = s.exit(p)
		return exit.Code != lostLeadership
	})
	require.Equal(s.t, syscall.SIGKILL, exit.Signal, "%v: %s", exit, s.log(p))
}

func (s *site) exit(p *e2e.Process) e2e.Exit {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	exit, err := p.Wait(ctx)
	require.NoError(s.t, err, "%s", s.log(p))
	return exit
}

func (s *site) log(p *e2e.Process) string {
	s.t.Helper()
	text, err := os.ReadFile(p.Log())
	require.NoError(s.t, err)
	return string(text)
}

// leads waits until a fencer leads.
func (s *site) leads(p *e2e.Process) {
	s.t.Helper()
	s.eventually("the next one leads", func() bool { return strings.Contains(s.log(p), "started leading") })
}
