package leaderelection_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
)

// workload is a leader whose workers, with the same service account, ask the API server for more than
// it lets service accounts have.
type workload struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	admin     kubernetes.Interface
	namespace string
	config    *rest.Config
	refused   atomic.Int32 // requests of workers that were answered with 429

	mu      sync.Mutex
	slowest time.Duration // renewal
	lost    chan error
}

// account is the name of the service account.
const account = "controller"

func newWorkload(t *testing.T, cp *e2e.ControlPlane) *workload {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	w := &workload{t: t, cp: cp, admin: admin, lost: make(chan error, 1)}
	w.namespace, err = cp.Namespace(t.Context(), "workload")
	require.NoError(t, err)
	user := "system:serviceaccount:" + w.namespace + ":" + account
	require.NoError(t, cp.Grant(t.Context(), user, w.namespace,
		rbacv1.PolicyRule{APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: verbs},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
	))
	w.config = cp.User(user, "system:serviceaccounts", "system:serviceaccounts:"+w.namespace, "system:authenticated")
	return w
}

// lead runs an elector until the test ends, and returns when it leads.
func (w *workload) lead() {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(leaderelection.LeaseConfig(w.config))
	require.NoError(w.t, err)
	elector, err := leaderelection.New(client, leaderelection.Config{
		Namespace: w.namespace, Name: "l", Identity: "a", // with the default duration: the machine may be slow
		OnLost: func(err error) {
			select {
			case w.lost <- err:
			default:
			}
		},
		Hooks: leaderelection.Hooks{OnRenewal: func(latency time.Duration, _ error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.slowest = max(w.slowest, latency)
		}},
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	ended, leading := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		_ = elector.Run(ctx, func(ctx context.Context) error {
			once.Do(func() { close(leading) })
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case <-leading:
	case <-time.After(patience):
		require.Fail(w.t, "not elected")
	}
}

// slowBody is the body of a request that takes long, without any work for this machine: it is empty, and
// ends late.
type slowBody struct {
	ends  <-chan time.Time
	abort context.Context //nolint:containedctx // of this one request
	close context.CancelFunc
}

func (b slowBody) Read([]byte) (int, error) {
	select {
	case <-b.ends:
		return 0, io.EOF
	case <-b.abort.Done():
		return 0, b.abort.Err()
	}
}

func (b slowBody) Close() error {
	b.close()
	return nil
}

// work has workers send requests that take 2 s each, one after the other, until the returned function is
// called.
func (w *workload) work(workers int) (stop func()) {
	w.t.Helper()
	client, err := rest.HTTPClientFor(w.config)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	send := func() (code int) {
		abort, end := context.WithCancel(ctx)
		defer end()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost,
			w.config.Host+"/api/v1/namespaces/"+w.namespace+"/configmaps",
			slowBody{ends: time.After(2 * time.Second), abort: abort, close: end})
		if !assert.NoError(w.t, err) {
			return 0
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for ctx.Err() == nil {
				if send() == http.StatusTooManyRequests {
					w.refused.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(200 * time.Millisecond):
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
		client.CloseIdleConnections()
	}
}

// crampWorkloads leaves few seats, and short queues, to requests of service accounts, as a cluster has
// for many programs together.
func crampWorkloads(t *testing.T, cp *e2e.ControlPlane) {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	levels := admin.FlowcontrolV1().PriorityLevelConfigurations()
	level, err := levels.Get(t.Context(), "workload-low", metav1.GetOptions{})
	require.NoError(t, err)
	level.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] = "false"
	level.Spec.Limited = &flowcontrolv1.LimitedPriorityLevelConfiguration{
		NominalConcurrencyShares: ptr.To(int32(1)), LendablePercent: ptr.To(int32(0)),
		BorrowingLimitPercent: ptr.To(int32(0)),
		LimitResponse: flowcontrolv1.LimitResponse{
			Type:    flowcontrolv1.LimitResponseTypeQueue,
			Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 10},
		},
	}
	_, err = levels.Update(t.Context(), level, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// separate creates the FlowSchema of deploy/components/flowcontrol for the workload.
func (w *workload) separate() {
	w.t.Helper()
	text, err := os.ReadFile("../../../deploy/components/flowcontrol/schema.yaml")
	require.NoError(w.t, err)
	var schema flowcontrolv1.FlowSchema
	require.NoError(w.t, yaml.UnmarshalStrict(text, &schema))
	rule := &schema.Spec.Rules[0]
	rule.Subjects[0].ServiceAccount.Namespace, rule.Subjects[0].ServiceAccount.Name = w.namespace, account
	rule.ResourceRules[0].Namespaces = []string{w.namespace}
	_, err = w.admin.FlowcontrolV1().FlowSchemas().Create(w.t.Context(), &schema, metav1.CreateOptions{})
	require.NoError(w.t, err)
}

// The requests of a leader's workers end its term, because the API server counts them and the renewals
// together: unless a FlowSchema tells them apart.
func TestOwnRequestsEndATermUnlessAFlowSchemaSeparatesThem(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{}) // its own: it gives the others fewer seats
	crampWorkloads(t, cp)
	const workers = 40     // the queue has room for half of them
	var took time.Duration // until the term was lost

	t.Run("without a FlowSchema", func(t *testing.T) {
		w := newWorkload(t, cp)
		w.lead()
		begin := time.Now()
		defer w.work(workers)()
		select {
		case err := <-w.lost:
			took = time.Since(begin)
			t.Logf("lost after %v, %d requests of workers refused: %v", took, w.refused.Load(), err)
			assert.ErrorIs(t, err, leaderelection.ErrLost)
		case <-time.After(5 * patience):
			require.Fail(t, "the term is kept")
		}
	})
	t.Run("with one", func(t *testing.T) {
		w := newWorkload(t, cp)
		w.separate()
		w.lead()
		defer w.work(workers)()
		select {
		case err := <-w.lost:
			assert.Fail(t, "the term is lost", "%v", err)
		case <-time.After(2 * took):
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Logf("kept, slowest renewal %v, %d requests of workers refused", w.slowest, w.refused.Load())
		assert.Positive(t, w.refused.Load(), "the load is what it was")
	})
}
