// Package kubelet plays the kubelet of a node, for processes of this machine that act for Pods.
package kubelet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// Kubelet plays the kubelet of a node. Its Pods run as soon as they exist, and are gone as soon as
// they are to end. The caller that started their processes ends those first, and pauses the kubelet
// until then.
type Kubelet struct {
	node   string
	pods   corev1client.PodInterface
	acting chan struct{} // of capacity 1: full while the kubelet acts, or is paused
	stop   context.CancelFunc
	ended  chan error
}

// Start starts one. The caller closes it.
func Start(ctx context.Context, pods corev1client.PodInterface, node string) *Kubelet {
	ctx, stop := context.WithCancel(ctx)
	k := &Kubelet{node: node, pods: pods, acting: make(chan struct{}, 1), stop: stop, ended: make(chan error, 1)}
	go func() { k.ended <- k.run(ctx) }()
	return k
}

// Pause returns when the kubelet does nothing any more.
func (k *Kubelet) Pause() error {
	k.acting <- struct{}{}
	return nil
}

// Resume has it catch up.
func (k *Kubelet) Resume() error {
	<-k.acting
	return nil
}

// Close ends it. The error is why it has ended before.
func (k *Kubelet) Close() error {
	k.stop()
	return <-k.ended
}

func (k *Kubelet) run(ctx context.Context) error {
	events, err := k.pods.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.node})
	if err != nil {
		return fmt.Errorf("kubelet of node %s: %w", k.node, err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events.ResultChan():
			pod, isPod := e.Object.(*corev1.Pod)
			switch {
			case ctx.Err() != nil:
				return nil
			case !ok || !isPod:
				return fmt.Errorf("kubelet of node %s: its watch has ended (%v)", k.node, e.Object)
			case e.Type == watch.Deleted:
				continue
			}
			select {
			case <-ctx.Done():
				return nil
			case k.acting <- struct{}{}:
			}
			err := k.see(ctx, pod)
			<-k.acting
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("kubelet of node %s: Pod %s: %w", k.node, pod.Name, err)
			}
		}
	}
}

// see acts on an event of a Pod. If the Pod changes meanwhile, another event follows.
func (k *Kubelet) see(ctx context.Context, pod *corev1.Pod) error {
	var err error
	switch {
	case pod.DeletionTimestamp != nil:
		err = k.pods.Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		})
	case pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending:
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning}
		for _, c := range pod.Spec.Containers {
			state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses,
				corev1.ContainerStatus{Name: c.Name, State: state})
		}
		_, err = k.pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
