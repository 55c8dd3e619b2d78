package fencing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// devices has what calls to power devices share.
type devices struct {
	config  *Config
	secrets *secrets
	turns   *turns
	ahead   chan struct{} // bounds the fences that read devices ahead: as many as may start
}

func newDevices(c *Config, kube kubernetes.Interface, t *turns) *devices {
	return &devices{
		config: c, turns: t, ahead: make(chan struct{}, c.Limits.MaxConcurrent),
		secrets: &secrets{client: kube, namespace: c.Namespace, clock: clock.System(), known: map[string]secret{}},
	}
}

// power reads a device. The caller has its turn.
func (d *devices) power(ctx context.Context, node string, device *nodeplan.Device) (agent.Power, error) {
	ctx, cancel := context.WithTimeout(ctx, device.Timeout)
	defer cancel()
	target, err := d.secrets.target(ctx, node, device)
	if err != nil {
		return agent.PowerUnknown, err
	}
	return d.config.Agents.Power(ctx, target)
}

// turns makes calls to one device wait for each other, because many power distribution units,
// chassis and BMCs accept only one session at a time. Fences come before checks. The number of
// checks that call devices at the same time is limited.
type turns struct {
	mu      sync.Mutex
	devices map[string]*queue // those that are called
	checks  int               // that may begin besides those under way
}

// queue has the calls that wait for a device.
type queue struct {
	busy           bool
	fences, checks []chan struct{} // that wait
}

func newTurns(checks int) *turns { return &turns{devices: map[string]*queue{}, checks: checks} }

// take waits until no call to the device is under way, and returns end, which ends the turn and
// must be called once.
func (t *turns) take(ctx context.Context, device string, fence bool) (end func(), err error) {
	t.mu.Lock()
	q := t.devices[device]
	if q == nil {
		q = &queue{}
		t.devices[device] = q
	}
	waiting := &q.checks
	if fence {
		waiting = &q.fences
	}
	mine := make(chan struct{})
	*waiting = append(*waiting, mine)
	t.grant(device, q)
	t.mu.Unlock()
	end = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		q.busy = false
		t.grant(device, q)
		if fence {
			return
		}
		t.checks++
		for device, q := range t.devices { // in any order, which is fair
			t.grant(device, q)
		}
	}
	select {
	case <-mine:
		return end, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(*waiting, mine)
	if i >= 0 {
		*waiting = slices.Delete(*waiting, i, i+1)
		t.grant(device, q)
	}
	t.mu.Unlock()
	if i < 0 { // it got its turn in this moment
		end()
	}
	return nil, ctx.Err()
}

// grant gives the next call its turn.
func (t *turns) grant(device string, q *queue) {
	switch {
	case q.busy:
		return
	case len(q.fences) > 0:
		close(q.fences[0])
		q.busy, q.fences = true, q.fences[1:]
	case len(q.checks) > 0 && t.checks > 0:
		t.checks--
		close(q.checks[0])
		q.busy, q.checks = true, q.checks[1:]
	case len(q.checks) == 0:
		delete(t.devices, device)
	}
}

// secretsLast is the maximum age of a Secret's values for a device. If the API server does not
// answer, the last known values are used.
const secretsLast = 10 * time.Second

// secrets caches the used Secrets of the namespace.
type secrets struct {
	client    kubernetes.Interface
	namespace string
	clock     clock.Clock
	used      atomic.Bool // a configuration refers to one

	mu    sync.Mutex
	known map[string]secret
}

type secret struct {
	read clock.Reading
	data map[string][]byte // nil if it does not exist
}

// get returns the data of a Secret, and whether it exists.
func (s *secrets) get(ctx context.Context, name string) (data map[string][]byte, found bool, err error) {
	s.mu.Lock()
	last, known := s.known[name]
	s.mu.Unlock()
	now := s.clock.Now()
	if known && now.SinceAtMost(last.read) < secretsLast {
		return last.data, last.data != nil, nil
	}
	s.used.Store(true)
	object, err := s.client.CoreV1().Secrets(s.namespace).Get(ctx, name, metav1.GetOptions{})
	err = kube.Named(object, name, err)
	kube.RoleOf(ctx).Refused(err)
	switch {
	case kube.Absent(err, corev1.Resource("secrets"), name):
		last = secret{read: now}
	case err == nil:
		last = secret{read: now, data: object.Data}
		if last.data == nil {
			last.data = map[string][]byte{}
		}
	case known:
		return last.data, last.data != nil, nil
	default:
		return nil, false, err
	}
	s.mu.Lock()
	s.known[name] = last
	s.mu.Unlock()
	return last.data, last.data != nil, nil
}

// target returns a device with its values from Secrets.
func (s *secrets) target(ctx context.Context, node string, d *nodeplan.Device) (agent.Target, error) {
	var unknown error
	target, err := nodeconfig.Target(d, node, func(ref nodeplan.SecretRef) ([]byte, bool) {
		data, _, err := s.get(ctx, ref.Name)
		unknown = errors.Join(unknown, err)
		value, found := data[ref.Key]
		return value, found
	})
	if unknown != nil {
		return target, fmt.Errorf("read the Secrets of device %s: %w", d.Key, unknown)
	}
	return target, err
}

// silentAgents has the agents that took longer than silentAfter to fail. Only the background asks
// them again.
type silentAgents struct {
	mu   sync.Mutex
	errs map[string]error // by name
}

// silentAfter is how long an agent that fails may take.
const silentAfter = time.Second

// ask asks for the metadata of an agent. With again, it also asks one that did not answer.
func (s *silentAgents) ask(name string, again bool, c clock.Clock, metadata func() (agent.Metadata, error),
) (agent.Metadata, error) {
	s.mu.Lock()
	err := s.errs[name]
	s.mu.Unlock()
	if err != nil && !again {
		return agent.Metadata{}, err
	}
	began := c.Now()
	m, err := metadata()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.errs, name)
	if err != nil && c.Now().SinceAtMost(began) >= silentAfter {
		if s.errs == nil {
			s.errs = map[string]error{}
		}
		s.errs[name] = err
	}
	return m, err
}

func (s *silentAgents) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs) > 0
}
