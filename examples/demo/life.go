package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/referee"
)

// lifeLock is the name of the lock of examples/leaderforlife.
const lifeLock = "example-leader"

// life is a chapter: three Pods of examples/leaderforlife. One leads until it ends.
type life struct {
	*stage
	host   host
	client kubernetes.Interface
	pods   map[string]*corev1.Pod
	alive  map[string]*e2e.Process // the latest process of each Pod
	lives  *referee.Lives
}

func playLife(ctx context.Context, s *stage) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	h := s.host(ctx, client)
	defer func() { err = errors.Join(err, h.close()) }()
	l := &life{
		stage: s, host: h, client: client, pods: map[string]*corev1.Pod{}, alive: map[string]*e2e.Process{},
		lives: referee.NewLives(),
	}
	return l.play(ctx)
}

func (l *life) play(ctx context.Context) error {
	l.paragraph("Three Pods contend for a ConfigMap. The one that creates it leads until it has ended: it renews "+
		"nothing, and the others send "+
		"no requests while they wait. %s", l.host.about())
	l.paragraph("")
	if err := l.host.grant(ctx, filepath.Join("..", "leaderforlife", "rbac.yaml"),
		filepath.Join("..", "leaderforlife", "rbac-optional.yaml")); err != nil {
		return err
	}
	if err := l.launch(ctx, "a", "one"); err != nil {
		return err
	}
	leader, err := l.successor(ctx, "leads: first come, first served")
	if err != nil {
		return err
	}
	if err := errors.Join(l.launch(ctx, "b", "two"), l.launch(ctx, "c", "two")); err != nil {
		return err
	}
	for _, blow := range []func(context.Context, string) (string, error){l.crash, l.evict, l.delete} {
		if err := sleep(ctx, calm); err != nil {
			return err
		}
		if leader, err = blow(ctx, leader); err != nil {
			return err
		}
	}
	return l.judge()
}

// crash kills the leader's process, and the kubelet starts the container again.
func (l *life) crash(ctx context.Context, leader string) (string, error) {
	l.say(leader, "kill -9")
	if err := l.kill(leader); err != nil {
		return "", err
	}
	if err := sleep(ctx, calm/2); err != nil {
		return "", err
	}
	l.say(leader, "its container is started again")
	at := time.Now()
	if err := l.start(ctx, leader); err != nil {
		return "", err
	}
	next, err := l.successor(ctx, "leads: it is still the same Pod")
	if err == nil && next != leader {
		err = fmt.Errorf("%s leads, though the Pod of %s has not ended", next, leader)
	}
	l.result("container killed: its Pod led on %v after the container was started again", time.Since(at))
	return next, err
}

// evict ends the leader as a kubelet that needs its memory does. The Pod stays, and with it the lock.
func (l *life) evict(ctx context.Context, leader string) (string, error) {
	l.say(leader, "is evicted: its process is ended, its Pod is Failed")
	if err := l.kill(leader); err != nil {
		return "", err
	}
	pods := l.client.CoreV1().Pods(l.namespace)
	pod, err := pods.Get(ctx, leader, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	at := time.Now()
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	next, err := l.successor(ctx, "leads: a Pod that has ended leads no more")
	l.result("evicted: the next leader began %v after the kubelet had said so", time.Since(at))
	return next, err
}

// delete deletes the leader's Pod in the foreground. Its lock is gone at once, but the Pod still has to end.
func (l *life) delete(ctx context.Context, leader string) (string, error) {
	kubelet := l.host.kubelet(l.pods[leader].Spec.NodeName)
	if err := kubelet.Pause(); err != nil { // it takes its time to end the container
		return "", err
	}
	l.say(leader, "kubectl delete pod --cascade=foreground")
	foreground := metav1.DeletePropagationForeground
	if err := l.client.CoreV1().Pods(l.namespace).Delete(ctx, leader,
		metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return "", err
	}
	at := time.Now()
	if err := l.awaitNoLock(ctx); err != nil {
		return "", err
	}
	gone := time.Since(at)
	l.say(leader, "its lock is gone, but its process still works")
	if err := sleep(ctx, calm); err != nil {
		return "", err
	}
	if len(l.lives.Begun) > 0 {
		return "", errors.New("another process leads beside it")
	}
	l.say(leader, "its process ends, and then its Pod")
	if err := errors.Join(l.kill(leader), kubelet.Resume()); err != nil {
		return "", err
	}
	ended := time.Now()
	next, err := l.successor(ctx, "leads: only now")
	l.result("deleted in the foreground: the lock was gone after %v; the next leader began %v after the old one had "+
		"ended", gone, time.Since(ended))
	return next, err
}

func (l *life) awaitNoLock(ctx context.Context) error {
	return wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			_, err := l.client.CoreV1().ConfigMaps(l.namespace).Get(ctx, lifeLock, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil
			}
			return false, err
		})
}

// judge ends the processes and compares when they led.
func (l *life) judge() error {
	for pod := range l.alive {
		if err := l.kill(pod); err != nil {
			return err
		}
	}
	l.sum()
	overlap, n := l.lives.Verdict()
	if overlap != "" {
		return fmt.Errorf("two Pods led at once: %s", overlap)
	}
	l.hanging(fmt.Sprintf("Two leaders at once: never (%d processes that led compared).", n))
	return nil
}

// launch creates a Pod, waits until its node reports that it runs, and starts its process.
func (l *life) launch(ctx context.Context, name, node string) error {
	pods := l.client.CoreV1().Pods(l.namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: lifeLock, TerminationGracePeriodSeconds: ptr.To[int64](30),
			Containers: []corev1.Container{{Name: "daemon", Image: "none.invalid/none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.pods[name] = pod
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			now, err := pods.Get(ctx, name, metav1.GetOptions{})
			return err == nil && now.Status.Phase == corev1.PodRunning, err
		})
	if err != nil {
		return err
	}
	l.say(name, "Pod runs on node %s", node)
	return l.start(ctx, name)
}

// start starts the process of a Pod, with the token that the kubelet mounts.
func (l *life) start(ctx context.Context, name string) error {
	kubeconfig, err := l.host.kubeconfig(ctx, l.pods[name])
	if err != nil {
		return err
	}
	p, err := l.group.Start(e2e.Command{
		Name: fmt.Sprintf("%s-%d", name, time.Now().UnixMilli()), Path: l.program,
		Env:    []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + l.namespace},
		OnLine: func(line string) { l.lives.Note(name, line) },
	})
	l.alive[name] = p
	return err
}

// kill ends the process of a Pod.
func (l *life) kill(name string) error {
	if err := l.alive[name].Kill(); err != nil {
		return err
	}
	l.lives.Ended(name, time.Now())
	return nil
}

// successor waits for the next process that leads.
func (l *life) successor(ctx context.Context, comment string) (pod string, err error) {
	select {
	case pod = <-l.lives.Begun:
		l.say(pod, "%s", comment)
		return pod, nil
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(patience):
		return "", fmt.Errorf("no leader within %v", patience)
	}
}
