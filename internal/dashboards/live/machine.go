package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	heartbeat = 500 * time.Millisecond
	boot      = 2 * time.Second
)

// machine is a node, its kubelet, and the controller that finds out that it is lost.
type machine struct {
	name, plug string // the file that is there while it has power
	client     kubernetes.Interface
	hung       atomic.Bool // until it loses its power

	boots int
	up    time.Time // when it is up after it was switched on; zero without power
	shown string
}

func newMachine(ctx context.Context, client kubernetes.Interface, plugs, name, kind string) (*machine, error) {
	m := &machine{name: name, plug: filepath.Join(plugs, name), client: client, up: time.Now()}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": kind}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{BootID: m.bootID()},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	_, err = client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return m, errors.Join(err, os.WriteFile(m.plug, nil, 0o600))
}

func (m *machine) bootID() string { return fmt.Sprintf("%s-%d", m.name, m.boots) }

// run lives its life until ctx ends.
func (m *machine) run(ctx context.Context) error {
	for {
		m.power()
		if err := m.beat(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		if sleep(ctx, heartbeat) != nil {
			return nil
		}
	}
}

// power sees whether the plug was switched.
func (m *machine) power() {
	_, err := os.Stat(m.plug)
	switch {
	case errors.Is(err, os.ErrNotExist):
		m.up = time.Time{}
		m.hung.Store(false)
	case m.up.IsZero():
		m.up = time.Now().Add(boot)
		m.boots++
	}
}

// beat says that the node is well, or that it was not heard of.
func (m *machine) beat(ctx context.Context) error {
	if m.up.IsZero() || m.hung.Load() || time.Now().Before(m.up) {
		return m.show(ctx, corev1.ConditionUnknown)
	}
	leases := m.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, m.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	if _, err := leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return m.show(ctx, corev1.ConditionTrue)
}

// show has the node say whether it is Ready.
func (m *machine) show(ctx context.Context, ready corev1.ConditionStatus) error {
	says := string(ready) + m.bootID()
	if says == m.shown {
		return nil
	}
	m.shown = says
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := m.client.CoreV1().Nodes().Get(ctx, m.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range node.Status.Conditions {
			if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != ready {
				c.Status, c.LastTransitionTime = ready, metav1.Now()
			}
		}
		if ready == corev1.ConditionTrue {
			node.Status.NodeInfo.BootID = m.bootID()
		}
		_, err = m.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
