package leaderelection_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/sim"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// TestSimulatedKubelets has each replica in a Pod. A process that dies is a container that ends, and
// the next process of the replica is the next container of the same Pod. A kubelet reports both:
// late, through a network that fails, or never. The control plane calls Pods failed that run. The
// referee is that of TestSimulatedSupervisors.
func TestSimulatedKubelets(t *testing.T) {
	s := supervised()
	s.Main = func(ctx context.Context, p *sim.Process) { runInContainer(ctx, p, t.TempDir()) }
	s.Parent = reportEnd
	sim.Prove(t, s, sim.Schedules(t, 300))
}

// kubelet is what the machine of a replica knows of its Pod.
type kubelet struct {
	pod, directory string

	mu     sync.Mutex
	status corev1.ContainerStatus
}

// kubeletOf returns the kubelet of a process' replica.
func kubeletOf(p *sim.Process, directory string) *kubelet {
	pod := strings.TrimRight(p.Name, "0123456789")
	k, _ := p.World().State.LoadOrStore("kubelet of "+pod, &kubelet{pod: pod, directory: directory})
	return k.(*kubelet)
}

// log is the termination log of a container.
func (k *kubelet) log(p *sim.Process) string { return filepath.Join(k.directory, p.Name) }

// ensurePod returns the Pod of the replica.
func (k *kubelet) ensurePod(w *sim.World) *corev1.Pod {
	pods := kubernetes.NewForConfigOrDie(w.Server.Client("control plane").Config()).CoreV1().Pods("ns")
	pod, err := pods.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: k.pod},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "program"}}},
	}, metav1.CreateOptions{})
	if err != nil { // a container before this one has it
		pod, err = pods.Get(context.Background(), k.pod, metav1.GetOptions{})
	}
	if err != nil {
		panic(err)
	}
	return pod
}

// change changes the status that is to be reported.
func (k *kubelet) change(f func(*corev1.ContainerStatus)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(&k.status)
}

// report writes the status, after a while, until that has succeeded.
func (k *kubelet) report(ctx context.Context, client kubernetes.Interface, phase corev1.PodPhase) {
	for wait(ctx, time.Duration(rand.Int64N(int64(2*time.Second)))) {
		if k.try(ctx, client.CoreV1().Pods("ns"), phase) == nil {
			return
		}
	}
}

func (k *kubelet) try(ctx context.Context, pods coreclient.PodInterface, phase corev1.PodPhase) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	pod, err := pods.Get(ctx, k.pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	pod.Status.Phase, pod.Status.ContainerStatuses = phase, []corev1.ContainerStatus{k.status}
	k.mu.Unlock()
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// runInContainer is a program that names its Pod.
func runInContainer(ctx context.Context, p *sim.Process, directory string) {
	k := kubeletOf(p, directory)
	pod := k.ensurePod(p.World())
	if err := os.WriteFile(k.log(p), nil, 0o600); err != nil {
		panic(err)
	}
	var reporting sync.WaitGroup
	defer reporting.Wait()
	reporting.Go(func() {
		k.change(func(s *corev1.ContainerStatus) {
			s.LastTerminationState = s.State
			s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		})
		phase := corev1.PodRunning
		if time.Now().UnixNano()%3 == 0 { // the control plane believes the node lost
			phase = corev1.PodFailed
		}
		k.report(ctx, kubernetes.NewForConfigOrDie(p.World().Server.Client("kubelet of "+k.pod).Config()), phase)
	})
	runGuarded(ctx, p, func(config *leaderelection.Config) {
		config.PodName, config.PodUID = k.pod, string(pod.UID)
		config.ReportIn(k.log(p))
	})
}

// reportEnd is the kubelet after a process has died.
func reportEnd(ctx context.Context, child, machine *sim.Process) {
	k := kubeletOf(child, "")
	message, err := os.ReadFile(k.log(child))
	if err != nil { // it died before it ran
		return
	}
	k.change(func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}
	})
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k.report(ctx, kubernetes.NewForConfigOrDie(machine.Config()), corev1.PodRunning)
	child.World().State.Store("reported", true)
}
