package leaderelection_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/leaderelection/admission"
)

// fence is an election whose Lease an admission policy asks, in a namespace of its own.
type fence struct {
	t         *testing.T
	cp        *e2e.ControlPlane
	namespace string
	admin     kubernetes.Interface
	policy    string // and its binding
}

// pod is a Pod, and a client with the token that the kubelet would mount in it.
type pod struct {
	*corev1.Pod
	client kubernetes.Interface
}

// anchor keeps the shared API server watching Leases. It stops for good with the last binding that
// asks for one (kubernetes/kubernetes#130887), and fences come and go with their tests.
var anchor sync.Once

// newFence makes an election that host_0 leads, and returns when its policy is in force.
func newFence(t *testing.T, cp *e2e.ControlPlane, change func(*fence, *admission.PolicyConfig)) *fence {
	t.Helper()
	namespace, err := cp.Namespace(t.Context(), "fence")
	require.NoError(t, err)
	f := &fence{t: t, cp: cp, namespace: namespace}
	f.admin, err = kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	writes := rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps", "events", "pods/exec", "serviceaccounts/token"},
		Verbs: []string{"create", "patch"},
	}
	leases := rbacv1.PolicyRule{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
		Verbs: []string{"create", "get", "update", "delete"},
	}
	for _, account := range []string{"daemon", "other"} {
		_, err := f.admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t,
			cp.Grant(t.Context(), "system:serviceaccount:"+namespace+":"+account, namespace, writes, leases))
	}
	_, err = f.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	f.hold("host_0")

	if cp == shared {
		anchor.Do(func() {
			f.install(admission.PolicyConfig{Namespace: namespace, Name: "anchor", Rules: f.onlyWork()})
		})
	}
	config := admission.PolicyConfig{Namespace: namespace, Name: "l"}
	if change != nil {
		change(f, &config)
	}
	f.policy = f.install(config)
	t.Cleanup(func() {
		ctx, api := context.Background(), f.admin.AdmissionregistrationV1() // the test's context has ended
		assert.NoError(t, api.ValidatingAdmissionPolicyBindings().Delete(ctx, f.policy, metav1.DeleteOptions{}))
		assert.NoError(t, api.ValidatingAdmissionPolicies().Delete(ctx, f.policy, metav1.DeleteOptions{}))
	})
	f.requireFollowing("host_0")
	return f
}

// install creates the policy and its binding with the rights that the documentation says are
// enough.
func (f *fence) install(config admission.PolicyConfig) string {
	f.t.Helper()
	config.ServiceAccounts = []types.NamespacedName{{Namespace: f.namespace, Name: "daemon"}}
	policy, binding, err := admission.Policy(config)
	require.NoError(f.t, err)
	installer := f.namespace + "-installer"
	require.NoError(f.t, f.cp.Grant(f.t.Context(), installer, "",
		rbacv1.PolicyRule{
			APIGroups: []string{admissionregistrationv1.GroupName}, Verbs: []string{"create"},
			Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"},
		},
		rbacv1.PolicyRule{
			APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"},
			Verbs: []string{"get"},
		},
	))
	client, err := kubernetes.NewForConfig(f.cp.User(installer))
	require.NoError(f.t, err)
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(f.t.Context(), policy, strict)
	require.NoError(f.t, err)
	_, err = client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(f.t.Context(), binding, strict)
	require.NoError(f.t, err)
	return policy.Name
}

// onlyWork is about nothing but what [fence.work] writes, which no other test does.
func (f *fence) onlyWork() []admissionregistrationv1.NamedRuleWithOperations {
	return []admissionregistrationv1.NamedRuleWithOperations{{
		ResourceNames: []string{f.namespace},
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
			},
		},
	}}
}

// pod creates a Pod that runs as a service account.
func (f *fence) pod(account string) pod {
	f.t.Helper()
	p, err := f.admin.CoreV1().Pods(f.namespace).Create(f.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: account + "-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(f.t, err)
	return pod{p, f.client(account, p)}
}

func (f *fence) client(account string, bound *corev1.Pod) kubernetes.Interface {
	f.t.Helper()
	config, err := f.cp.ServiceAccount(f.t.Context(), f.namespace, account, bound)
	require.NoError(f.t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(f.t, err)
	return client
}

// elector contends for the Lease as a process in the Pod does.
func (f *fence) elector(p pod) *leaderelection.Elector {
	f.t.Helper()
	identity, err := admission.PodIdentity(f.t.Context(), p.client)
	require.NoError(f.t, err)
	require.True(f.t, strings.HasSuffix(identity, "_"+string(p.UID)), identity)
	e, err := leaderelection.New(p.client, leaderelection.Config{
		Namespace: f.namespace, Name: "l", Identity: identity,
		LeaseDuration: 5 * patience, // without a renewal
		OnLost:        func(err error) { f.t.Error(err) },
	})
	require.NoError(f.t, err)
	return e
}

// hold writes a holder into the record, and makes one if there is none.
func (f *fence) hold(holder string) {
	f.t.Helper()
	leases := f.admin.CoordinationV1().Leases(f.namespace)
	_, err := leases.Patch(f.t.Context(), "l", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"holderIdentity":%q}}`, holder), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
		lease.Spec.HolderIdentity = &holder
		_, err = leases.Create(f.t.Context(), lease, metav1.CreateOptions{})
	}
	require.NoError(f.t, err)
}

// requireFollowing waits until the API server denies a Pod's writes because this one is the leader.
func (f *fence) requireFollowing(holder string) {
	f.t.Helper()
	f.hold(holder)
	probe := f.pod("daemon")
	f.requireEventually(func() error { return f.work(probe.client) }, "is held by "+holder)
}

// work is a write that only the leader may do.
func (f *fence) work(client kubernetes.Interface) error {
	_, err := client.CoreV1().ConfigMaps(f.namespace).Patch(f.t.Context(), f.namespace, types.MergePatchType,
		fmt.Appendf(nil, `{"data":{"at":"%d"}}`, time.Now().UnixNano()), metav1.PatchOptions{})
	return err
}

// requireDenied says that the policy has refused a write, and why.
func (f *fence) requireDenied(err error, why string) {
	f.t.Helper()
	require.True(f.t, apierrors.IsForbidden(err), "not denied: %v", err)
	require.ErrorContains(f.t, err, f.policy)
	require.ErrorContains(f.t, err, why)
}

// requireEventually waits until a write is denied with this reason, with "" until it is not denied:
// the API server sees the Lease and the policy by watches of its own.
func (f *fence) requireEventually(write func() error, why string) {
	f.t.Helper()
	var last error
	defer func() {
		if f.t.Failed() {
			f.t.Log("the last answer was:", last)
		}
	}()
	require.Eventually(f.t, func() bool {
		last = write()
		if why == "" {
			return last == nil
		}
		return last != nil && strings.Contains(last.Error(), f.policy) && strings.Contains(last.Error(), why)
	}, patience, poll)
}

func TestFenceDeniesAllButTheLeader(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFence(t, shared, nil)
		require.NoError(t,
			f.admin.CoordinationV1().Leases(f.namespace).Delete(t.Context(), "l", metav1.DeleteOptions{}))
		a, b, other := f.pod("daemon"), f.pod("daemon"), f.pod("other")
		first, second := f.elector(a), f.elector(b)
		term, err := first.TryAcquire(t.Context())
		require.NoError(t, err)
		notLeader := fmt.Sprintf("Pod %s is not the leader: lease %s/l is held by %s", b.UID, f.namespace,
			term.Identity)

		f.requireEventually(func() error { return f.work(b.client) }, notLeader)
		require.NoError(t, f.work(a.client), "the same API server knows that this one leads")

		assertOthersAreNotAffected(f, other)
		assertCandidateMayContend(f, b, second)
		assertCandidateIsDenied(f, b, a, notLeader)

		require.NoError(t, first.Release(t.Context()))
		f.requireEventually(func() error { return f.work(a.client) }, "is held by no process")
		_, err = second.TryAcquire(t.Context())
		require.NoError(t, err)
		f.requireEventually(func() error { return f.work(b.client) }, "")
		f.requireDenied(f.work(a.client), fmt.Sprintf("Pod %s is not the leader", a.UID))
		require.NoError(t, second.Release(t.Context()))
	})
}

func assertOthersAreNotAffected(f *fence, other pod) {
	f.t.Helper()
	assert.NoError(f.t, f.work(f.admin))
	assert.NoError(f.t, f.work(other.client), "another service account's Pod")
	assert.NoError(f.t, f.work(f.client("other", nil)), "its token without a Pod")
}

func assertCandidateMayContend(f *fence, candidate pod, e *leaderelection.Elector) {
	f.t.Helper()
	_, err := e.TryAcquire(f.t.Context())
	assert.ErrorIs(f.t, err, leaderelection.ErrHeld)
	meta := metav1.ObjectMeta{GenerateName: "l-", Namespace: f.namespace}
	_, err = candidate.client.CoordinationV1().Leases(f.namespace).
		Create(f.t.Context(), &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{})
	assert.NoError(f.t, err, "another election")
	_, err = candidate.client.CoreV1().Events(f.namespace).Create(f.t.Context(),
		&corev1.Event{ObjectMeta: meta, InvolvedObject: corev1.ObjectReference{Namespace: f.namespace}},
		metav1.CreateOptions{})
	assert.NoError(f.t, err)
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
	}}
	_, err = candidate.client.AuthorizationV1().SelfSubjectAccessReviews().Create(f.t.Context(), review,
		metav1.CreateOptions{})
	assert.NoError(f.t, err)
}

// assertCandidateIsDenied tries what is not an ordinary write, but has effects or opens a way
// around the fence.
func assertCandidateIsDenied(f *fence, candidate, leader pod, why string) {
	f.t.Helper()
	exec := func(p pod) error {
		return p.client.CoreV1().RESTClient().Post().Namespace(f.namespace).Resource("pods").Name(
			leader.Name).SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Command: []string{"true"}, Stdout: true}, scheme.ParameterCodec).
			Do(f.t.Context()).Error()
	}
	f.requireDenied(exec(candidate), why)
	assert.NotContains(f.t, exec(leader).Error(), f.policy, "fails because the Pod runs nowhere")
	for _, options := range []metav1.CreateOptions{{}, {DryRun: []string{metav1.DryRunAll}}} {
		_, err := candidate.client.CoreV1().ServiceAccounts(f.namespace).
			CreateToken(f.t.Context(), "other", &authenticationv1.TokenRequest{}, options)
		f.requireDenied(err, why)
	}
	f.requireDenied(candidate.client.CoordinationV1().Leases(f.namespace).Delete(f.t.Context(), "l",
		metav1.DeleteOptions{}), why)
}

func TestFenceComparesTheWholeUID(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFence(t, shared, nil)
		a, b := f.pod("daemon"), f.pod("daemon")
		work := func() error { return f.work(a.client) }
		uids := strings.NewReplacer("A", string(a.UID), "B", string(b.UID))
		for _, holder := range []string{"host_A", "host_0123456789abcdef_A", "_A", "B_A"} {
			f.hold("host_0")
			f.requireEventually(work, "held by host_0")
			f.hold(uids.Replace(holder))
			f.requireEventually(work, "")
		}
		for _, holder := range []string{
			"", "A", "hostA", "host-A", "host_A ", "host_A_", "host_xA", "host_", "host_B",
			"A_B",
		} {
			f.hold("host_" + string(a.UID))
			f.requireEventually(work, "")
			f.hold(uids.Replace(holder))
			f.requireEventually(work, "is not the leader")
		}
	})
}

func TestFenceNeedsTheTokenOfAPod(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newFence(t, shared, nil)
		const why = "this token is not bound to a Pod: use the one that the kubelet mounts"
		unbound := f.client("daemon", nil)
		f.requireDenied(f.work(unbound), why)
		_, err := admission.PodIdentity(t.Context(), unbound)
		assert.ErrorContains(t, err, "not bound to a Pod")

		config := shared.Admin()
		config.Impersonate.UserName = "system:serviceaccount:" + f.namespace + ":daemon" // without any extra
		impersonator, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		f.requireDenied(f.work(impersonator), why)
	})
}

func TestFenceWithoutLease(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		remove := func(f *fence) {
			require.NoError(t,
				f.admin.CoordinationV1().Leases(f.namespace).Delete(t.Context(), "l", metav1.DeleteOptions{}))
		}
		f := newFence(t, shared, nil)
		a := f.pod("daemon")
		remove(f)
		f.requireEventually(func() error { return f.work(a.client) }, "")
		require.NoError(t, f.work(f.admin))
		f.hold("host_successor")
		f.requireEventually(func() error { return f.work(a.client) }, "held by host_successor")

		f = newFence(t, shared, func(f *fence, c *admission.PolicyConfig) {
			c.DenyWithoutLease, c.Rules = true, f.onlyWork()
		})
		remove(f)
		f.requireEventually(func() error { return f.work(f.pod("daemon").client) }, "no params found")
		assert.ErrorContains(t, f.work(f.admin), "no params found", "as documented: everybody")
	})
}

// TestFenceOutlastsTheAPIServer also takes the fence out of force as documented. The control plane
// is its own: no other binding keeps the API server watching Leases.
func TestFenceOutlastsTheAPIServer(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		cp := e2e.Start(t, e2e.Options{})
		f := newFence(t, cp, nil)
		daemon := f.pod("daemon")
		enforce := func(action string) {
			_, err := f.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Patch(t.Context(), f.policy,
				types.MergePatchType, fmt.Appendf(nil, `{"spec":{"validationActions":[%q]}}`, action),
				metav1.PatchOptions{})
			require.NoError(t, err)
		}
		enforce("Audit")
		f.requireEventually(func() error { return f.work(daemon.client) }, "")
		enforce("Deny")
		f.requireFollowing("host_1")
		f.requireFollowing("host_2")

		require.NoError(t, cp.APIServer.Kill())
		require.NoError(t, cp.APIServer.Restart())
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		require.NoError(t, cp.Ready(ctx))
		f.requireEventually(func() error {
			err := f.work(daemon.client) // the first answers may be about broken connections
			assert.Error(t, err, "an API server that has just started lets it pass")
			return err
		}, "is held by host_2")
		f.requireFollowing("host_3")
	})
}

// TestFenceLag measures, and so is not parallel: for how long after a take-over the API server
// still accepts the old leader's writes, and denies the new one's.
func TestFenceLag(t *testing.T) {
	const trials = 100
	f := newFence(t, shared, nil)
	pods := []pod{f.pod("daemon"), f.pod("daemon")}
	var closed, opened []time.Duration
	late := 0
	f.hold("host_" + string(pods[1].UID))
	for trial := range trials {
		old, next := pods[(trial+1)%2], pods[trial%2]
		f.requireEventually(func() error { return f.work(old.client) }, "")
		denied := make(chan []time.Time)
		go func() { denied <- f.workUntil(old.client, apierrors.IsForbidden) }()
		accepted := make(chan []time.Time)
		go func() { accepted <- f.workUntil(next.client, func(err error) bool { return err == nil }) }()
		f.hold("host_" + string(next.UID))
		taken := time.Now()
		acts := <-denied
		closed = append(closed, acts[len(acts)-1].Sub(taken))
		for _, at := range acts[:len(acts)-1] {
			if at.After(taken) {
				late++
			}
		}
		acts = <-accepted
		opened = append(opened, acts[len(acts)-1].Sub(taken))
	}
	slices.Sort(closed)
	slices.Sort(opened)
	t.Logf("%d take-overs. The old leader's first denied write was sent %v (median), at most %v after the take-over "+
		"was "+
		"answered; %d accepted writes were sent after it. The new leader's first accepted write: %v, at most %v",
		trials, closed[trials/2], closed[trials-1], late, opened[trials/2], opened[trials-1])
}

// workUntil writes as fast as answers come, until one is as wanted, and returns when each write was
// sent.
func (f *fence) workUntil(client kubernetes.Interface, wanted func(error) bool) []time.Time {
	var acts []time.Time
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		acts = append(acts, time.Now())
		if wanted(f.work(client)) {
			return acts
		}
	}
	f.t.Error("the fence does not change sides")
	return acts
}
