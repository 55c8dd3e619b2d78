package leaderforlife_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/process"
	leader "github.com/bellwether-k8s/bellwether/leaderforlife"
)

const (
	lockName = "l"
	labelKey = "leader.bellwether.dev/l"
	node     = "node"
)

// world is an API server with Pods. The test acts as their kubelet.
type world struct {
	t      *testing.T
	server *apisim.Server
	client kubernetes.Interface

	occupying *pacer

	mu       sync.Mutex
	occupied map[string]bool
	all      []*replica
}

// inWorld runs a test in its own bubble.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		test(t, &world{
			t: t, server: server, client: kubernetes.NewForConfigOrDie(server.Client("test").Config()),
			occupying: &pacer{t: t}, occupied: map[string]bool{},
		})
	})
}

// occupy acts like the kernel's sockets.
func (w *world) occupy(name string) (release func(), err error) {
	if w.occupying.spins("occupy " + name) {
		time.Sleep(time.Minute)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.occupied[name] {
		return nil, process.ErrLocked
	}
	w.occupied[name] = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.occupied, name)
	}, nil
}

// running is the status of a Pod that runs.
var running = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
	{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
}}

// over is the status of a Pod whose containers have ended.
func over(phase corev1.PodPhase, reason string) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, Reason: reason, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
	}}
}

// pod creates a Pod that runs.
func (w *world) pod(name string, finalizers ...string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("ns").Create(w.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec:       corev1.PodSpec{NodeName: node}, Status: running,
	}, metav1.CreateOptions{})
	require.NoError(w.t, err)
	return pod
}

// update changes a Pod, but for its status.
func (w *world) update(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	change(pod)
	_, err = w.client.CoreV1().Pods("ns").Update(w.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func (w *world) setStatus(name string, status corev1.PodStatus) {
	w.t.Helper()
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	require.NoError(w.t, err)
	pod.Status = status
	_, err = w.client.CoreV1().Pods("ns").UpdateStatus(w.t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(w.t, err)
}

func (w *world) deletePod(name string) {
	w.t.Helper()
	require.NoError(w.t, w.client.CoreV1().Pods("ns").Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// kubelet is the finalizer of a Pod whose containers take time to end.
const kubelet = "test/kubelet"

// deleteForeground has the garbage collector remove the lock of a Pod that still runs.
func (w *world) deleteForeground(name string) {
	w.t.Helper()
	require.NoError(w.t, w.client.CoreV1().Pods("ns").
		Delete(w.t.Context(), name,
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}))
	w.server.Collect()
	require.Nil(w.t, w.lock(), "the garbage collector has removed the lock")
	require.NotNil(w.t, w.getPod(name), "the Pod still runs")
}

func (w *world) letGo(name string) {
	w.t.Helper()
	w.update(name, func(p *corev1.Pod) { p.Finalizers = nil })
	w.server.Collect()
	require.Nil(w.t, w.getPod(name))
}

func (w *world) getPod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("ns").Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return pod
}

// lock is the ConfigMap; nil: there is none.
func (w *world) lock() *corev1.ConfigMap {
	w.t.Helper()
	lock, err := w.client.CoreV1().ConfigMaps("ns").Get(w.t.Context(), lockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(w.t, err)
	return lock
}

// replica is a process of a Pod that calls Become.
type replica struct {
	pod        *corev1.Pod
	connection *apisim.Client
	logs       *observer.ObservedLogs
	cancel     context.CancelFunc
	wrappers   []transport.WrapperFunc
	result     chan error

	mu      sync.Mutex
	end     func() // of its leadership; nil: it does not lead
	waiting []leader.Waiting
}

// process returns one that has not begun.
func (w *world) process(pod *corev1.Pod) *replica {
	p := &replica{pod: pod, connection: w.server.Client(pod.Name), result: make(chan error, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, p)
	return p
}

// start starts one that calls Become.
func (w *world) start(pod *corev1.Pod, options ...leader.Option) *replica {
	p := w.process(pod)
	p.start(w, options...)
	return p
}

func (p *replica) options(w *world, options []leader.Option) []leader.Option {
	core, logs := observer.New(zap.InfoLevel)
	p.logs = logs
	config := p.connection.Config()
	for _, wrapper := range p.wrappers {
		config.Wrap(wrapper)
	}
	requests := &pacer{t: w.t}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return paced{next, requests} })
	return append([]leader.Option{
		leader.WithConfig(config), leader.WithNamespace("ns"), leader.WithPodName(p.pod.Name),
		leader.WithLogger(zap.New(core)),
		leader.WithProcessLock(w.occupy), leader.WithHooks(leader.Hooks{OnWaiting: func(waiting []leader.Waiting) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.waiting = waiting
		}}),
	}, options...)
}

func (p *replica) start(w *world, options ...leader.Option) {
	ctx, cancel := context.WithCancel(w.t.Context())
	p.cancel = cancel
	options = p.options(w, options)
	go func() {
		defer cancel()
		end, err := leader.BecomeIn(ctx, lockName, options...)
		p.mu.Lock()
		if err == nil {
			p.end = end
		}
		p.mu.Unlock()
		p.result <- err
	}()
	w.t.Cleanup(cancel)
}

// returned returns the result of Become, which must come within an hour.
func (p *replica) returned() error {
	select {
	case err := <-p.result:
		return err
	case <-time.After(time.Hour):
		return errors.New("Become has not returned within an hour")
	}
}

func (p *replica) leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end != nil
}

// why it waits.
func (p *replica) why() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, w := range p.waiting {
		all = append(all, fmt.Sprintf("%s: %s", w.Pod, w.Why))
	}
	return strings.Join(all, "; ")
}

// exit ends the process, not its Pod.
func (p *replica) exit() {
	p.cancel()
	p.connection.Sever()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		p.end()
		p.end = nil
	}
}

// leaders returns the names of the Pods whose processes lead.
func (w *world) leaders() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, p := range w.all {
		if p.leads() {
			names = append(names, p.pod.Name)
		}
	}
	return names
}

// requests returns the requests that a process has sent, from the nth on.
func (w *world) requests(p *replica, from int) []string {
	var sent []string
	for _, r := range w.server.Trace()[from:] {
		if r.Client == p.pod.Name {
			sent = append(sent, r.String())
		}
	}
	return sent
}

func (w *world) served() int { return len(w.server.Trace()) }

// pacer detects a candidate that spins, which would stop the time of a bubble.
type pacer struct {
	t *testing.T

	mu   sync.Mutex
	at   time.Time // of the last time
	n    int       // how often it has been done then
	spun bool
}

func (p *pacer) spins(what string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); !now.Equal(p.at) {
		p.at, p.n = now, 0
	}
	if p.n++; p.n > 200 && !p.spun {
		p.spun = true
		p.t.Errorf("a candidate spins: %s", what)
	}
	return p.spun
}

// paced is a transport that answers until the candidate spins.
type paced struct {
	next  http.RoundTripper
	pacer *pacer
}

func (p paced) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.pacer.spins(r.Method + " " + r.URL.Path) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return p.next.RoundTrip(r)
}

// filter sets a transport that calls f for each request; nil from f lets the request through.
type filter struct {
	next http.RoundTripper
	f    func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (f filter) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.f(f.next, r)
	if response == nil && err == nil {
		return f.next.RoundTrip(r)
	}
	return response, err
}

func (p *replica) filter(f func(next http.RoundTripper, r *http.Request) (*http.Response, error)) {
	p.wrappers = append(p.wrappers, func(next http.RoundTripper) http.RoundTripper { return filter{next, f} })
}

// isA reports whether a request has one of these verbs on the resource.
func isA(r *http.Request, resource string, verbs ...string) bool {
	verb := map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		http.MethodGet: "get",
	}[r.Method]
	if verb == "get" && strings.HasSuffix(r.URL.Path, "/"+resource) {
		verb = "list"
		if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
	}
	return strings.Contains(r.URL.Path, "/"+resource) && slices.Contains(verbs, verb)
}

// forbid refuses requests as RBAC does.
func (p *replica) forbid(resource string, verbs ...string) {
	var always atomic.Bool
	always.Store(true)
	p.forbidWhile(&always, resource, verbs...)
}

// answer is an error of the API server.
func answer(r *http.Request, err *apierrors.StatusError) *http.Response {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return respond(r, int(status.Code), status)
}

func respond(r *http.Request, code int, object any) *http.Response {
	body, _ := json.Marshal(object) // never fails
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
		Request: r,
	}
}

// held is a request in flight for longer than its sender waits.
type held struct {
	send func()
	once sync.Once
	mu   sync.Mutex
}

// hold breaks the connection of the first such request. The test decides when the request arrives.
// skip excludes requests.
func (p *replica) hold(w *world, resource, verb string, skip ...func() bool) *held {
	h := &held{}
	p.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !isA(r, resource, verb) || len(skip) > 0 && skip[0]() {
			return nil, nil
		}
		var err error
		h.once.Do(func() {
			body, readErr := io.ReadAll(r.Body)
			if readErr != nil {
				panic(readErr)
			}
			late := r.Clone(context.WithoutCancel(r.Context()))
			late.Body = io.NopCloser(bytes.NewReader(body))
			h.mu.Lock()
			defer h.mu.Unlock()
			h.send = func() { _, _ = w.server.Client("late").RoundTrip(late) }
			err = errors.New("connection reset by peer")
		})
		return nil, err
	})
	return h
}

// isHeld reports whether there is a held request.
func (h *held) isHeld() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.send != nil
}

// forbidWhile is forbid while a condition of the test holds.
func (p *replica) forbidWhile(holds *atomic.Bool, resource string, verbs ...string) {
	p.filter(func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !holds.Load() || !isA(r, resource, verbs...) {
			return nil, nil
		}
		return answer(r,
			apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "",
				errors.New(`User "u" cannot use resource "`+resource+`"`))), nil
	})
}
