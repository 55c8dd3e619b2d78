package leaderelection_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// tenure is what one elector has had of a Lease.
type tenure struct {
	begun, ended atomic.Int32 // terms
}

// runElector runs an elector until the test ends.
func runElector(t *testing.T, p peer, config *rest.Config, lease types.NamespacedName) *tenure {
	t.Helper()
	client, err := kubernetes.NewForConfig(p.config(config))
	require.NoError(t, err)
	held := &tenure{}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			err := p.run(ctx, client, lease, func(ctx context.Context) {
				held.begun.Add(1)
				<-ctx.Done()
				held.ended.Add(1)
			})
			assert.NoError(t, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return held
}

// muteWebhook has the API server ask a webhook about the Leases of a namespace that accepts connections,
// says nothing, and may be ignored after some seconds. It returns when the webhook is asked.
func muteWebhook(t *testing.T, admin kubernetes.Interface, namespace string, seconds int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	asked := make(chan struct{}, 1000)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			defer connection.Close()
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	})
	leases := admissionv1.Rule{
		APIGroups: []string{coordinationv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"leases"},
	}
	hooks := admin.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name:         "mute.example.com",
			ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://" + listener.Addr().String())},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.OperationAll}, Rule: leases,
			}},
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
			},
			FailurePolicy:           ptr.To(admissionv1.Ignore),
			TimeoutSeconds:          ptr.To(seconds),
			SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, hooks.Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{}))
		_ = listener.Close()
		accepting.Wait()
	})
	select {
	case <-asked:
	case <-time.After(patience):
		require.Fail(t, "the API server does not ask the webhook")
	}
}

// A webhook without an answer delays each write of a Lease. Terms are kept, and begin.
func TestWebhookWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int32{2, 3, 5, 8} {
		t.Run(fmt.Sprintf("ignored after %d s", seconds), func(t *testing.T) {
			t.Parallel()
			namespace, err := shared.Namespace(t.Context(), "webhook")
			require.NoError(t, err)
			admin, err := kubernetes.NewForConfig(shared.Admin())
			require.NoError(t, err)
			lease := func(name string) types.NamespacedName {
				return types.NamespacedName{Namespace: namespace, Name: name}
			}
			kept := runElector(t, ours, shared.Admin(), lease("kept"))
			peers := runElector(t, clientGo, shared.Admin(), lease("peers"))
			require.Eventually(t, func() bool { return kept.begun.Load() == 1 && peers.begun.Load() == 1 },
				patience, poll)
			muteWebhook(t, admin, namespace, seconds)
			taken := runElector(t, ours, shared.Admin(), lease("taken"))
			time.Sleep(3 * fullDuration)
			t.Logf("terms that ended in %v: %d, client-go %d", 3*fullDuration, kept.ended.Load(), peers.ended.Load())
			assert.Zero(t, kept.ended.Load())
			assert.EqualValues(t, 1, taken.begun.Load(), "a term that begins meanwhile")
			assert.Zero(t, taken.ended.Load())
		})
	}
}
