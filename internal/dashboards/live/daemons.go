package live

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// daemons are Pods behind a Service, with a leader for life. Their kubelet is played here.
type daemons struct {
	*stage
	processes map[string]*e2e.Process
}

func playDaemons(ctx context.Context, s *stage) error {
	d := &daemons{s, map[string]*e2e.Process{}}
	_, err := s.client.CoreV1().Services(Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: Daemon},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	s.scraper.happened(Daemon, "x and y start")
	if err := errors.Join(d.launch(ctx, "x"), d.leads(ctx, "x"), d.launch(ctx, "y"), sleep(ctx, 5*calm)); err != nil {
		return err
	}
	s.scraper.happened(Daemon, "the Pod of x, the leader, is deleted")
	return errors.Join(d.remove(ctx, "x"), d.leads(ctx, "y"))
}

func (d *daemons) launch(ctx context.Context, name string) error {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	pod, err := d.client.CoreV1().Pods(Namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: "host", Containers: []corev1.Container{{Name: Daemon}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: Daemon, State: running}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	content, err := d.server.KubeconfigOf(pod)
	kubeconfig, err := d.kubeconfig(name, content, err)
	if err != nil {
		return err
	}
	d.processes[name], err = d.start(ctx, Target{Daemon, name}, e2e.Command{Env: []string{
		"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + Namespace,
		fmt.Sprintf("POD_IP=192.0.2.%d", 1+len(d.processes)),
	}})
	return err
}

// remove deletes a Pod. Its process takes a moment to end.
func (d *daemons) remove(ctx context.Context, name string) error {
	pods := d.client.CoreV1().Pods(Namespace)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](30)}); err != nil {
		return err
	}
	if err := sleep(ctx, calm); err != nil {
		return err
	}
	if err := d.processes[name].Terminate(); err != nil {
		return err
	}
	if _, err := d.processes[name].Wait(ctx); err != nil {
		return err
	}
	return pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
}

func (d *daemons) leads(ctx context.Context, name string) error {
	return d.await(ctx, name+" leads for life", func(context.Context) (bool, error) {
		return d.scraper.value(Target{Daemon, name}, "bellwether_leaderforlife_leading") == 1, nil
	})
}
