package fencing

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/clock"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

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

func newSecrets(client kubernetes.Interface, c Config) *secrets {
	return &secrets{client: client, namespace: c.Namespace, clock: clock.System(), known: map[string]secret{}}
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
func (s *secrets) target(ctx context.Context, node string, d *nodeconfig.Device) (agent.Target, error) {
	var unknown error
	target, err := d.Target(node, func(ref nodeconfig.SecretRef) ([]byte, bool) {
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
