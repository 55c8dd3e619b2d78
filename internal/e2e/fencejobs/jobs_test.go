package fencejobs_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencejobs"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

const operation = "fence-0123456789-1-1"

// arena is a namespace for Jobs, a machine with a BMC, and nodes.
type arena struct {
	t         *testing.T
	admin     kubernetes.Interface
	namespace string // of the Jobs, and the label of nodes
	machine   *lab.Machine
	bmc       *lab.Device
	victim    atomic.Pointer[kubelet] // on the machine, if that is a node
}

func newArena(t *testing.T) *arena {
	t.Helper()
	labtest.Need(t)
	t.Parallel()
	a := &arena{t: t}
	a.machine = lab.NewMachine(func(on bool) {
		if victim := a.victim.Load(); victim != nil && on {
			victim.power(on)
		}
	})
	var err error
	a.admin, err = kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	namespace, err := shared.Namespace(t.Context(), "fencejobs")
	require.NoError(t, err)
	a.namespace = namespace + "-jobs"
	// What the example grants, and no more.
	manifest, err := os.ReadFile("../../../examples/fencer/jobs.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	text := strings.ReplaceAll(string(manifest), "namespace: fencer\n", "namespace: "+namespace+"\n")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "fencer-jobs", a.namespace)), 0o600))
	require.NoError(t, shared.Apply(t.Context(), file))
	dir, err := os.MkdirTemp("", "bellwether-lab-")
	require.NoError(t, err)
	devices, err := lab.New(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, devices.Close())
		assert.NoError(t, os.RemoveAll(dir))
	})
	a.bmc, err = devices.BMC(a.machine.Chassis())
	require.NoError(t, err)
	return a
}

// user is the fencer to the API server.
func (a *arena) user() *rest.Config {
	return shared.User("system:serviceaccount:" + strings.TrimSuffix(a.namespace, "-jobs") + ":fencer")
}

func (a *arena) new(change ...func(*fencejobs.Config)) *fencejobs.Jobs {
	a.t.Helper()
	client, err := kubernetes.NewForConfig(a.user())
	require.NoError(a.t, err)
	c := fencejobs.Config{
		Namespace: a.namespace, Image: "fencer:test",
		StartWithin: time.Minute, AnswerWithin: time.Minute, Timeout: 2 * time.Minute, // however busy the machine is
	}
	c.Pod.Spec.NodeSelector = map[string]string{a.namespace: "true"}
	for _, f := range change {
		f(&c)
	}
	jobs, err := fencejobs.New(client, c)
	require.NoError(a.t, err)
	return jobs
}

// hasty is a controller whose pods have to start at once.
func hasty(c *fencejobs.Config) { c.StartWithin, c.ClockSkew = time.Second, time.Second }

// short is how long a call takes that is given up: a busy control plane needs some of it to make a
// pod.
const short = 12 * time.Second

func (a *arena) target(node string) agent.Target { return a.bmc.Target(node, "", nil) }

// offs is how often the BMC was told to switch the machine off.
func (a *arena) offs() (count int) {
	for _, command := range a.machine.Chassis().Commands() {
		if !command.On {
			count++
		}
	}
	return count
}

func (a *arena) jobs() []batchv1.Job {
	a.t.Helper()
	jobs, err := a.admin.BatchV1().Jobs(a.namespace).List(a.t.Context(), metav1.ListOptions{})
	require.NoError(a.t, err)
	return jobs.Items
}

// requireNoSecrets requires that nothing is left that a pod was told.
func (a *arena) requireNoSecrets() {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		secrets, err := a.admin.CoreV1().Secrets(a.namespace).List(a.t.Context(), metav1.ListOptions{})
		require.NoError(a.t, err)
		return len(secrets.Items) == 0
	}, patience, poll, "Secrets are left")
}

func off(timeout time.Duration) agent.Command {
	return agent.Command{ID: operation, Action: agent.ActionOff, Timeout: timeout}
}

func TestJobsSwitchAMachine(t *testing.T) {
	a := newArena(t)
	jobs, host := a.new(), newKubelet(t, a.admin, a.namespace)
	m, err := jobs.Metadata(t.Context(), "fence_ipmilan")
	require.NoError(t, err)
	assert.Contains(t, m.Actions, "off")
	power, err := jobs.Power(t.Context(), a.target("victim"))
	require.NoError(t, err)
	assert.Equal(t, agent.PowerOn, power)
	require.NoError(t, jobs.Switch(t.Context(), a.target("victim"), off(0)))
	assert.False(t, a.machine.On())
	power, err = jobs.Power(t.Context(), a.target("victim"))
	require.NoError(t, err)
	assert.Equal(t, agent.PowerOff, power)
	assert.Equal(t, 1, a.offs())
	assert.Equal(t, 4, host.pods())
	wrong := a.target("victim")
	wrong.Parameters = agent.NewParameters(map[string]string{"ip": "127.0.0.1", "no_such": "x"})
	power, err = jobs.Power(t.Context(), wrong)
	require.ErrorContains(t, err, "no_such")
	assert.Equal(t, agent.PowerUnknown, power)
	a.requireNoSecrets()
}

// A controller is killed between the creation of the Job and its answer. Another one that is asked
// for the same command adopts the Job.
func TestJobIsAdopted(t *testing.T) {
	t.Parallel()
	for _, death := range []string{"POST jobs", "POST secrets", "GET pods"} {
		t.Run(death, func(t *testing.T) {
			a := newArena(t)
			host := newKubelet(t, a.admin, a.namespace)
			first := a.replica("first", "-die", death)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			exit, err := first.Wait(ctx)
			require.NoError(t, err)
			require.NotZero(t, exit.Signal, "it was not killed: %v", exit)
			before := a.jobs()
			require.Len(t, before, 1)
			second := a.replica("second")
			exit, err = second.Wait(ctx)
			require.NoError(t, err)
			log, err := os.ReadFile(second.Log())
			require.NoError(t, err)
			require.Zero(t, exit.Code, "%s", log)
			after := a.jobs()
			require.Len(t, after, 1)
			assert.Equal(t, before[0].UID, after[0].UID)
			assert.Equal(t, 1, a.offs())
			assert.Equal(t, 1, host.pods())
			assert.False(t, a.machine.On())
			a.requireNoSecrets()
		})
	}
}

// replica starts a controller in a process of its own, that switches off.
func (a *arena) replica(name string, args ...string) *e2e.Process {
	a.t.Helper()
	program, err := shared.Program(a.t.Context(), "./replica")
	require.NoError(a.t, err)
	kubeconfig, err := shared.Kubeconfig(a.user())
	require.NoError(a.t, err)
	parameters, err := json.Marshal(a.bmc.Parameters)
	require.NoError(a.t, err)
	file := filepath.Join(a.t.TempDir(), "parameters")
	require.NoError(a.t, os.WriteFile(file, parameters, 0o600))
	p, err := shared.Run(e2e.Command{
		Name: a.namespace + "-" + name, Path: program,
		Args: append([]string{
			"-kubeconfig", kubeconfig, "-namespace", a.namespace, "-label", a.namespace, "-id",
			operation, "-node", "victim", "-parameters", file,
		}, args...),
	})
	require.NoError(a.t, err)
	a.t.Cleanup(func() { _ = p.Kill() })
	return p
}

// A kubelet that is cut off, or has no image for long, starts the program when no call waits for it
// any more: the program itself sends nothing.
func TestPodThatStartsLateSendsNothing(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"while it is waited for": 3 * time.Second,
		"when it was given up":   0,
	} {
		t.Run(name, func(t *testing.T) {
			a := newArena(t)
			host := newKubelet(t, a.admin, a.namespace)
			hold := make(chan struct{})
			host.mu.Lock()
			host.hold, host.cut = hold, after == 0
			host.mu.Unlock()
			if after > 0 { // since there is a Job
				var late sync.WaitGroup
				defer late.Wait()
				late.Go(func() {
					defer close(hold)
					for begin := time.Now(); len(a.jobs()) == 0 && time.Since(begin) < patience; {
						<-time.After(poll)
					}
					<-time.After(after)
				})
			}
			began, timeout := time.Now(), short
			if after > 0 {
				timeout = 0 // it is not given up
			}
			err := a.new(hasty).Switch(t.Context(), a.target("victim"), off(timeout))
			require.Error(t, err)
			if after > 0 {
				require.ErrorContains(t, err, "too late")
			} else {
				assert.GreaterOrEqual(t, time.Since(began), short, "until then something might be sent")
				close(hold)
			}
			require.Eventually(t, func() bool { return host.pods() == 1 }, patience, poll, "the program did not run")
			assert.Contains(t, host.said(), "refused by the pod, nothing was sent")
			assert.Zero(t, a.offs())
			assert.True(t, a.machine.On())
			a.requireNoSecrets()
		})
	}
}

// The node that is fenced is the only one, and Ready: the scheduler does not give it the pod, and
// nothing is sent.
func TestJobRunsElsewhere(t *testing.T) {
	a := newArena(t)
	victim := newKubelet(t, a.admin, a.namespace)
	err := a.new(hasty, func(c *fencejobs.Config) {
		c.Pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}).Switch(t.Context(), a.target(victim.node), off(short))
	require.ErrorContains(t, err, "affinity")
	assert.Zero(t, a.offs())
	a.requireNoSecrets()
	// Its time is over for the control plane, too.
	require.Eventually(t, func() bool {
		pods, err := a.admin.CoreV1().Pods(a.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		jobs := a.jobs()
		return len(pods.Items) == 0 && len(jobs) == 1 &&
			jobs[0].Status.Failed+jobs[0].Status.Active == jobs[0].Status.Failed && len(jobs[0].Status.Conditions) > 0
	}, patience, poll)
	host := newKubelet(t, a.admin, a.namespace)
	for range 3 {
		power, err := a.new().Power(t.Context(), a.target(victim.node))
		require.NoError(t, err)
		require.Equal(t, agent.PowerOn, power)
	}
	assert.Equal(t, 3, host.pods())
	assert.Zero(t, victim.pods())
}

// While a pod waits for a dead device, and after it: the password is in the Secret that only the
// pod reads.
func TestSecretsOfJobs(t *testing.T) {
	a := newArena(t)
	host := newKubelet(t, a.admin, a.namespace)
	secret := fmt.Sprintf("s3cret-%d", os.Getpid()) // IPMI allows 20 characters
	target := a.bmc.Target("victim", "", map[string]string{"password": secret})
	require.NoError(t, a.bmc.Freeze())
	core, logs := observer.New(zap.DebugLevel)
	jobs := a.new(func(c *fencejobs.Config) { c.Logger = zap.New(core) })
	ended := make(chan error, 1)
	go func() { ended <- jobs.Switch(t.Context(), target, off(0)) }()
	var seen []string
	var err error
	waits := 0 // looks at the agent while it waits for the device
	for running := true; running; {
		seen = append(seen, a.visible()...)
		a.requireNotIn(secret, arguments())
		if strings.Contains(seen[len(seen)-2], `"phase":"Running"`) {
			waits++
		}
		if waits == 20 {
			require.NoError(t, a.bmc.Thaw())
		}
		select {
		case err = <-ended:
			running = false
		case <-time.After(2 * poll):
		}
	}
	require.Error(t, err)
	seen = append(seen, a.visible()...)
	require.NotEmpty(t, host.said())
	require.NotEmpty(t, logs.All())
	a.requireNotIn(secret, append(seen, err.Error(), host.said(), fmt.Sprint(logs.All())))
	assert.Contains(t, strings.Join(seen, ""), operation+"-", "a pod was seen")
	a.requireNoSecrets()
}

// visible is what anybody may see who may not read Secrets.
func (a *arena) visible() (all []string) {
	a.t.Helper()
	ctx := a.t.Context()
	add := func(list any, err error) {
		require.NoError(a.t, err)
		content, err := json.Marshal(list)
		require.NoError(a.t, err)
		all = append(all, string(content))
	}
	jobs, err := a.admin.BatchV1().Jobs(a.namespace).List(ctx, metav1.ListOptions{})
	add(jobs, err)
	pods, err := a.admin.CoreV1().Pods(a.namespace).List(ctx, metav1.ListOptions{})
	add(pods, err)
	events, err := a.admin.EventsV1().Events(a.namespace).List(ctx, metav1.ListOptions{})
	add(events, err)
	return all
}

func (a *arena) requireNotIn(secret string, texts []string) {
	a.t.Helper()
	for _, text := range texts {
		require.NotContains(a.t, text, secret)
		require.NotContains(a.t, text, base64.StdEncoding.EncodeToString([]byte(secret)))
	}
}

// arguments are those of all processes, but for ipmitool's, which blanks its password by itself a
// moment after it was started.
func arguments() (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil &&
			!strings.HasPrefix(filepath.Base(strings.Split(string(line), "\x00")[0]), "ipmitool") {
			all = append(all, string(line))
		}
	}
	return all
}
