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

// cluster is a namespace for Jobs, a machine with a BMC, and nodes.
type cluster struct {
	t         *testing.T
	admin     kubernetes.Interface
	namespace string // of the Jobs, and the label of nodes
	machine   *lab.Machine
	bmc       *lab.Device
	victim    atomic.Pointer[kubelet] // on the machine, if that is a node
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	labtest.Need(t)
	t.Parallel()
	c := &cluster{t: t}
	c.machine = lab.NewMachine(func(on bool) {
		if victim := c.victim.Load(); victim != nil && on {
			victim.power(on)
		}
	})
	var err error
	c.admin, err = kubernetes.NewForConfig(shared.Admin())
	require.NoError(t, err)
	namespace, err := shared.Namespace(t.Context(), "fencejobs")
	require.NoError(t, err)
	c.namespace = namespace + "-jobs"
	// What the example grants, and no more.
	manifest, err := os.ReadFile("../../../examples/fencer/jobs.yaml")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "jobs.yaml")
	text := strings.ReplaceAll(string(manifest), "namespace: fencer\n", "namespace: "+namespace+"\n")
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "fencer-jobs", c.namespace)), 0o600))
	require.NoError(t, shared.Apply(t.Context(), file))
	dir, err := os.MkdirTemp("", "bellwether-lab-")
	require.NoError(t, err)
	devices, err := lab.New(dir)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, devices.Close())
		assert.NoError(t, os.RemoveAll(dir))
	})
	c.bmc, err = devices.BMC(c.machine.Chassis())
	require.NoError(t, err)
	return c
}

// user is the fencer to the API server.
func (c *cluster) user() *rest.Config {
	return shared.User("system:serviceaccount:" + strings.TrimSuffix(c.namespace, "-jobs") + ":fencer")
}

func (c *cluster) new(change ...func(*fencejobs.Config)) *fencejobs.Jobs {
	c.t.Helper()
	client, err := kubernetes.NewForConfig(c.user())
	require.NoError(c.t, err)
	config := fencejobs.Config{
		Namespace: c.namespace, Image: "fencer:test",
		StartWithin: time.Minute, AnswerWithin: time.Minute, Timeout: 2 * time.Minute, // however busy the machine is
	}
	config.Pod.Spec.NodeSelector = map[string]string{c.namespace: "true"}
	for _, f := range change {
		f(&config)
	}
	jobs, err := fencejobs.New(client, config)
	require.NoError(c.t, err)
	return jobs
}

// hasty is a controller whose pods have to start at once.
func hasty(c *fencejobs.Config) { c.StartWithin, c.ClockSkew = time.Second, time.Second }

// short is how long a call takes that is given up: a busy control plane needs some of it to make a
// pod.
const short = 12 * time.Second

func (c *cluster) target(node string) agent.Target { return c.bmc.Target(node, "", nil) }

// offs is how often the BMC was told to switch the machine off.
func (c *cluster) offs() (count int) {
	for _, command := range c.machine.Chassis().Commands() {
		if !command.On {
			count++
		}
	}
	return count
}

func (c *cluster) jobs() []batchv1.Job {
	c.t.Helper()
	jobs, err := c.admin.BatchV1().Jobs(c.namespace).List(c.t.Context(), metav1.ListOptions{})
	require.NoError(c.t, err)
	return jobs.Items
}

// requireNoSecrets requires that nothing is left that a pod was told.
func (c *cluster) requireNoSecrets() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		secrets, err := c.admin.CoreV1().Secrets(c.namespace).List(c.t.Context(), metav1.ListOptions{})
		require.NoError(c.t, err)
		return len(secrets.Items) == 0
	}, patience, poll, "Secrets are left")
}

func off(timeout time.Duration) agent.Command {
	return agent.Command{ID: operation, Action: agent.ActionOff, Timeout: timeout}
}

func TestJobsSwitchAMachine(t *testing.T) {
	c := newCluster(t)
	jobs, host := c.new(), newKubelet(t, c.admin, c.namespace)
	m, err := jobs.Metadata(t.Context(), "fence_ipmilan")
	require.NoError(t, err)
	assert.Contains(t, m.Actions, "off")
	power, err := jobs.Power(t.Context(), c.target("victim"))
	require.NoError(t, err)
	assert.Equal(t, agent.PowerOn, power)
	require.NoError(t, jobs.Switch(t.Context(), c.target("victim"), off(0)))
	assert.False(t, c.machine.On())
	power, err = jobs.Power(t.Context(), c.target("victim"))
	require.NoError(t, err)
	assert.Equal(t, agent.PowerOff, power)
	assert.Equal(t, 1, c.offs())
	assert.Equal(t, 4, host.pods())
	wrong := c.target("victim")
	wrong.Parameters = agent.NewParameters(map[string]string{"ip": "127.0.0.1", "no_such": "x"})
	power, err = jobs.Power(t.Context(), wrong)
	require.ErrorContains(t, err, "no_such")
	assert.Equal(t, agent.PowerUnknown, power)
	c.requireNoSecrets()
}

// A controller is killed between the creation of the Job and its answer. Another one that is asked
// for the same command adopts the Job.
func TestJobIsAdopted(t *testing.T) {
	t.Parallel()
	for _, death := range []string{"POST jobs", "POST secrets", "GET pods"} {
		t.Run(death, func(t *testing.T) {
			c := newCluster(t)
			host := newKubelet(t, c.admin, c.namespace)
			first := c.replica("first", "-die", death)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			exit, err := first.Wait(ctx)
			require.NoError(t, err)
			require.NotZero(t, exit.Signal, "it was not killed: %v", exit)
			before := c.jobs()
			require.Len(t, before, 1)
			second := c.replica("second")
			exit, err = second.Wait(ctx)
			require.NoError(t, err)
			log, err := os.ReadFile(second.Log())
			require.NoError(t, err)
			require.Zero(t, exit.Code, "%s", log)
			after := c.jobs()
			require.Len(t, after, 1)
			assert.Equal(t, before[0].UID, after[0].UID)
			assert.Equal(t, 1, c.offs())
			assert.Equal(t, 1, host.pods())
			assert.False(t, c.machine.On())
			c.requireNoSecrets()
		})
	}
}

// replica starts a controller in a process of its own, that switches off.
func (c *cluster) replica(name string, args ...string) *e2e.Process {
	c.t.Helper()
	program, err := shared.Program(c.t.Context(), "./replica")
	require.NoError(c.t, err)
	kubeconfig, err := shared.Kubeconfig(c.user())
	require.NoError(c.t, err)
	parameters, err := json.Marshal(c.bmc.Parameters)
	require.NoError(c.t, err)
	file := filepath.Join(c.t.TempDir(), "parameters")
	require.NoError(c.t, os.WriteFile(file, parameters, 0o600))
	p, err := shared.Run(e2e.Command{
		Name: c.namespace + "-" + name, Path: program,
		Args: append([]string{
			"-kubeconfig", kubeconfig, "-namespace", c.namespace, "-label", c.namespace, "-id",
			operation, "-node", "victim", "-parameters", file,
		}, args...),
	})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Kill() })
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
			c := newCluster(t)
			host := newKubelet(t, c.admin, c.namespace)
			hold := make(chan struct{})
			host.mu.Lock()
			host.hold, host.cut = hold, after == 0
			host.mu.Unlock()
			if after > 0 { // since there is a Job
				var late sync.WaitGroup
				defer late.Wait()
				late.Go(func() {
					defer close(hold)
					for begin := time.Now(); len(c.jobs()) == 0 && time.Since(begin) < patience; {
						<-time.After(poll)
					}
					<-time.After(after)
				})
			}
			began, timeout := time.Now(), short
			if after > 0 {
				timeout = 0 // it is not given up
			}
			err := c.new(hasty).Switch(t.Context(), c.target("victim"), off(timeout))
			require.Error(t, err)
			if after > 0 {
				require.ErrorContains(t, err, "too late")
			} else {
				assert.GreaterOrEqual(t, time.Since(began), short, "until then something might be sent")
				close(hold)
			}
			require.Eventually(t, func() bool { return host.pods() == 1 }, patience, poll, "the program did not run")
			assert.Contains(t, host.said(), "refused by the pod, nothing was sent")
			assert.Zero(t, c.offs())
			assert.True(t, c.machine.On())
			c.requireNoSecrets()
		})
	}
}

// The node that is fenced is the only one, and Ready: the scheduler does not give it the pod, and
// nothing is sent.
func TestJobRunsElsewhere(t *testing.T) {
	c := newCluster(t)
	victim := newKubelet(t, c.admin, c.namespace)
	err := c.new(hasty, func(c *fencejobs.Config) {
		c.Pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}).Switch(t.Context(), c.target(victim.node), off(short))
	require.ErrorContains(t, err, "affinity")
	assert.Zero(t, c.offs())
	c.requireNoSecrets()
	// Its time is over for the control plane, too.
	require.Eventually(t, func() bool {
		pods, err := c.admin.CoreV1().Pods(c.namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		jobs := c.jobs()
		return len(pods.Items) == 0 && len(jobs) == 1 &&
			jobs[0].Status.Failed+jobs[0].Status.Active == jobs[0].Status.Failed && len(jobs[0].Status.Conditions) > 0
	}, patience, poll)
	host := newKubelet(t, c.admin, c.namespace)
	for range 3 {
		power, err := c.new().Power(t.Context(), c.target(victim.node))
		require.NoError(t, err)
		require.Equal(t, agent.PowerOn, power)
	}
	assert.Equal(t, 3, host.pods())
	assert.Zero(t, victim.pods())
}

// While a pod waits for a dead device, and after it: the password is in the Secret that only the
// pod reads.
func TestSecretsOfJobs(t *testing.T) {
	c := newCluster(t)
	host := newKubelet(t, c.admin, c.namespace)
	secret := fmt.Sprintf("s3cret-%d", os.Getpid()) // IPMI allows 20 characters
	target := c.bmc.Target("victim", "", map[string]string{"password": secret})
	require.NoError(t, c.bmc.Freeze())
	core, logs := observer.New(zap.DebugLevel)
	jobs := c.new(func(c *fencejobs.Config) { c.Logger = zap.New(core) })
	ended := make(chan error, 1)
	go func() { ended <- jobs.Switch(t.Context(), target, off(0)) }()
	var seen []string
	var err error
	waits := 0 // looks at the agent while it waits for the device
	for running := true; running; {
		seen = append(seen, c.visible()...)
		c.requireNotIn(secret, arguments())
		if strings.Contains(seen[len(seen)-2], `"phase":"Running"`) {
			waits++
		}
		if waits == 20 {
			require.NoError(t, c.bmc.Thaw())
		}
		select {
		case err = <-ended:
			running = false
		case <-time.After(2 * poll):
		}
	}
	require.Error(t, err)
	seen = append(seen, c.visible()...)
	require.NotEmpty(t, host.said())
	require.NotEmpty(t, logs.All())
	c.requireNotIn(secret, append(seen, err.Error(), host.said(), fmt.Sprint(logs.All())))
	assert.Contains(t, strings.Join(seen, ""), operation+"-", "a pod was seen")
	c.requireNoSecrets()
}

// visible is what anybody may see who may not read Secrets.
func (c *cluster) visible() (all []string) {
	c.t.Helper()
	ctx := c.t.Context()
	add := func(list any, err error) {
		require.NoError(c.t, err)
		content, err := json.Marshal(list)
		require.NoError(c.t, err)
		all = append(all, string(content))
	}
	jobs, err := c.admin.BatchV1().Jobs(c.namespace).List(ctx, metav1.ListOptions{})
	add(jobs, err)
	pods, err := c.admin.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{})
	add(pods, err)
	events, err := c.admin.EventsV1().Events(c.namespace).List(ctx, metav1.ListOptions{})
	add(events, err)
	return all
}

func (c *cluster) requireNotIn(secret string, texts []string) {
	c.t.Helper()
	for _, text := range texts {
		require.NotContains(c.t, text, secret)
		require.NotContains(c.t, text, base64.StdEncoding.EncodeToString([]byte(secret)))
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
