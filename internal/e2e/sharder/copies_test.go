package sharder_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

var (
	deployments = kind{
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Kind: "Deployment",
		namespaced: true,
	}
	replicaSets = kind{
		Resource: appsv1.SchemeGroupVersion.WithResource("replicasets"), Kind: "ReplicaSet",
		namespaced: true,
	}
)

// The controllers of kube-controller-manager copy annotations and labels, among them the ring's.
func TestWhatControllersCopy(t *testing.T) {
	t.Parallel()
	cp := e2e.Start(t, e2e.Options{ControllerManager: true})

	t.Run("a ring of Deployments and ReplicaSets comes to rest after each roll-out, undo and scaling",
		func(t *testing.T) {
			t.Parallel()
			deploymentsAndReplicaSets(t, cp)
		})
	t.Run("to what", func(t *testing.T) {
		t.Parallel()
		copiesOfControllers(t, cp)
	})
}

func deploymentsAndReplicaSets(t *testing.T, cp *e2e.ControlPlane) {
	f := newClusterIn(t, cp, deployments, replicaSets)
	// What work writes would be copied, too. What copies have changed unseen is found by a scan.
	args := []string{"-work=500ms", "-pace=1s", "-scan-interval=2s"}
	f.start("a", args...)
	f.start("b", args...)
	f.requireSettled("a", "b")
	const apps = 8
	for i := range apps {
		labels := map[string]string{"test": f.namespace, "app": strconv.Itoa(i)}
		_, err := f.client.AppsV1().Deployments(f.namespace).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("d", i), Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none.invalid/1"}}},
				},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	members := []string{"a", "b"}
	r := rollOuts{c: f}
	// rests asserts that all is placed, and that the ring has written on each object a few times at
	// most, and nothing any more.
	rests := func(what string, since time.Time, each int) {
		t.Helper()
		for i := range apps {
			r.requireDone(fmt.Sprint("d", i))
		}
		f.requirePlaced(members...)
		f.requireScans(2) // one that has begun now, which finds what was copied
		f.requirePlaced(members...)
		costs := f.costs(since)
		for name, c := range costs {
			assert.LessOrEqual(t, c.sharder+c.shard, each, "%s: writes on %s", what, name)
		}
		quiet := time.Now()
		f.requireScans(3) // to see that nothing happens
		assert.Empty(t, f.costs(quiet), "%s: writes when it is over", what)
		t.Logf("%s: %v", what, costs)
	}
	replicaSetsOf := func(n int) func() bool {
		return func() bool {
			list, err := f.client.AppsV1().ReplicaSets(f.namespace).List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			return len(list.Items) == n
		}
	}
	begun := time.Now()
	f.eventually(replicaSetsOf(apps), "no ReplicaSets")
	rests("created", begun, 3)

	rollOut := func(image string) {
		for i := range apps {
			_, err := f.client.AppsV1().Deployments(f.namespace).Patch(t.Context(), fmt.Sprint("d", i),
				types.StrategicMergePatchType,
				fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"none.invalid/`+
					`%s"}]}}}}`, image), metav1.PatchOptions{})
			require.NoError(t, err)
		}
	}
	begun = time.Now()
	rollOut("2")
	f.eventually(replicaSetsOf(2*apps), "no new ReplicaSets")
	rests("rolled out", begun, 3)

	// The records of the Deployments of the shard that restarts change. Those of their old ReplicaSets
	// are copies of the former ones. The names decide whether any Deployment belongs to b.
	all := f.list()
	restarted := all[slices.IndexFunc(all, func(o object) bool { return o.kind == deployments })].owner(members...)
	begun = time.Now()
	p := f.processes[restarted]
	require.NoError(t, p.Terminate())
	f.requireEnd(p)
	f.start(restarted, args...)
	rests(restarted+" restarted", begun, 4)
	begun = time.Now()
	c := f.start("c", args...)
	members = []string{"a", "b", "c"}
	rests("c joined", begun, 4)
	begun = time.Now()
	require.NoError(t, c.Terminate())
	members = []string{"a", "b"}
	rests("c left", begun, 4)

	begun = time.Now()
	outdated := 0
	for i := range apps {
		if undo(t, f.client, f.namespace, fmt.Sprint("d", i)) {
			outdated++
		}
	}
	require.Positive(t, outdated, "none of the old records was restored")
	rests("undone", begun, 5)
	begun = time.Now()
	for i := range apps {
		undo(t, f.client, f.namespace, fmt.Sprint("d", i))
	}
	rests("undone again", begun, 5)
	begun = time.Now()
	for i := range apps {
		_, err := f.client.AppsV1().Deployments(f.namespace).Patch(t.Context(), fmt.Sprint("d", i),
			types.MergePatchType, []byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	rests("scaled", begun, 3)
	f.requireExclusion()
}

// undo is kubectl rollout undo: it gives a Deployment the template of its second last ReplicaSet,
// and the annotations. It reports whether that restores an old record of the Deployment.
func undo(t testing.TB, client kubernetes.Interface, namespace, name string) (outdated bool) {
	t.Helper()
	d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	list, err := client.AppsV1().ReplicaSets(namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	const revision = "deployment.kubernetes.io/revision"
	own := slices.DeleteFunc(list.Items, func(r appsv1.ReplicaSet) bool { return !metav1.IsControlledBy(&r, d) })
	slices.SortFunc(own, func(a, b appsv1.ReplicaSet) int {
		x, _ := strconv.Atoi(a.Annotations[revision])
		y, _ := strconv.Atoi(b.Annotations[revision])
		return y - x
	})
	require.GreaterOrEqual(t, len(own), 2)
	annotations := map[string]string{}
	kept := []string{
		corev1.LastAppliedConfigAnnotation, revision, "deployment.kubernetes.io/revision-history",
		"deployment.kubernetes.io/desired-replicas",
		"deployment.kubernetes.io/max-replicas", appsv1.DeprecatedRollbackTo,
	}
	maps.Copy(annotations, own[1].Annotations)
	for _, key := range kept {
		delete(annotations, key)
		if value, ok := d.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	delete(own[1].Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/spec/template", "value": own[1].Spec.Template},
		{"op": "replace", "path": "/metadata/annotations", "value": annotations},
	})
	require.NoError(t, err)
	_, err = client.AppsV1().Deployments(namespace).Patch(t.Context(), name, types.JSONPatchType, patch,
		metav1.PatchOptions{})
	require.NoError(t, err)
	record := api.RecordAnnotation(ringName, deployments.Resource.GroupResource())
	return annotations[record] != "" && annotations[record] != d.Annotations[record]
}

// copies is what of a kind's labels and annotations another has that controllers make for it.
type copies struct{ labels, annotations bool }

func copiesOfControllers(t *testing.T, cp *e2e.ControlPlane) {
	namespace, err := cp.Namespace(t.Context(), "copies")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cp.Admin())
	require.NoError(t, err)
	const ring = "copied"
	app := map[string]string{"app": "x"}
	made := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, Labels: map[string]string{api.ShardLabel(ring): "a"},
			Annotations: map[string]string{api.RecordAnnotation(ring, schema.GroupResource{Resource: "x"}): "x"},
		}
	}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: app},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "main", Image: "none.invalid/1"}},
		},
	}
	once := template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	selector := &metav1.LabelSelector{MatchLabels: app}
	ctx := t.Context()
	for _, err := range []error{
		second(client.AppsV1().Deployments(namespace).Create(ctx,
			&appsv1.Deployment{
				ObjectMeta: made("d"),
				Spec:       appsv1.DeploymentSpec{Selector: selector, Template: template},
			}, metav1.CreateOptions{})),
		second(client.AppsV1().StatefulSets(namespace).Create(ctx,
			&appsv1.StatefulSet{
				ObjectMeta: made("s"),
				Spec:       appsv1.StatefulSetSpec{Selector: selector, Template: template},
			}, metav1.CreateOptions{})),
		second(client.AppsV1().DaemonSets(namespace).Create(ctx,
			&appsv1.DaemonSet{
				ObjectMeta: made("n"),
				Spec:       appsv1.DaemonSetSpec{Selector: selector, Template: template},
			}, metav1.CreateOptions{})),
		second(client.BatchV1().CronJobs(namespace).Create(ctx,
			&batchv1.CronJob{ObjectMeta: made("c"), Spec: batchv1.CronJobSpec{
				Schedule: "* * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *once}},
			}}, metav1.CreateOptions{})),
		second(client.BatchV1().Jobs(namespace).Create(ctx,
			&batchv1.Job{ObjectMeta: made("j"), Spec: batchv1.JobSpec{Template: *once}}, metav1.CreateOptions{})),
		second(client.CoreV1().Services(namespace).Create(ctx,
			&corev1.Service{ObjectMeta: made("v"), Spec: corev1.ServiceSpec{
				Selector: app, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}},
			}}, metav1.CreateOptions{})),
		second(client.CoreV1().Services(namespace).Create(ctx,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Spec: corev1.ServiceSpec{
				Ports: []corev1.ServicePort{{Port: 80}},
			}}, metav1.CreateOptions{})),
		//nolint:staticcheck // Endpoints are what is mirrored
		second(client.CoreV1().Endpoints(namespace).Create(ctx,
			&corev1.Endpoints{ObjectMeta: made("m"), Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 80}},
			}}}, metav1.CreateOptions{})),
	} {
		require.NoError(t, err)
	}
	// first waits for an object that is controlled by another, and returns it.
	find := func(owner string, list func(context.Context) ([]metav1.Object, error)) metav1.Object {
		var found metav1.Object
		require.True(t, waitFor(ctx, 3*time.Minute, func() bool {
			all, err := list(ctx)
			require.NoError(t, err)
			for _, o := range all {
				if controller := metav1.GetControllerOf(o); controller != nil && controller.Name == owner ||
					slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
						return r.Name == owner
					}) {
					found = o
				}
			}
			return found != nil
		}), "nothing of %s", owner)
		return found
	}
	sets := func(ctx context.Context) ([]metav1.Object, error) {
		l, err := client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		return pointers(l.Items), err
	}
	revisions := func(ctx context.Context) ([]metav1.Object, error) {
		l, err := client.AppsV1().ControllerRevisions(namespace).List(ctx, metav1.ListOptions{})
		return pointers(l.Items), err
	}
	jobs := func(ctx context.Context) ([]metav1.Object, error) {
		l, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
		return pointers(l.Items), err
	}
	pods := func(ctx context.Context) ([]metav1.Object, error) {
		l, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return pointers(l.Items), err
	}
	slicesOf := func(ctx context.Context) ([]metav1.Object, error) {
		l, err := client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
		return pointers(l.Items), err
	}
	got := map[string]copies{}
	for name, of := range map[string]struct {
		owner string
		list  func(context.Context) ([]metav1.Object, error)
	}{
		"Deployment to ReplicaSet": {"d", sets}, "StatefulSet to ControllerRevision": {"s", revisions},
		"DaemonSet to ControllerRevision": {"n", revisions},
		"StatefulSet to Pod":              {"s", pods}, "Job to Pod": {"j", pods}, "CronJob to Job": {"c", jobs},
		"Service to EndpointSlice": {"v", slicesOf}, "Endpoints to EndpointSlice": {"m", slicesOf},
	} {
		o := find(of.owner, of.list)
		_, labelled := o.GetLabels()[api.ShardLabel(ring)]
		_, annotated := o.GetAnnotations()[api.RecordAnnotation(ring, schema.GroupResource{Resource: "x"})]
		got[name] = copies{labelled, annotated}
	}
	assert.Equal(t, map[string]copies{
		"Deployment to ReplicaSet": {annotations: true}, "StatefulSet to ControllerRevision": {annotations: true},
		"DaemonSet to ControllerRevision": {annotations: true},
		"StatefulSet to Pod":              {}, "Job to Pod": {}, "CronJob to Job": {},
		"Service to EndpointSlice": {labels: true}, "Endpoints to EndpointSlice": {labels: true, annotations: true},
	}, got, "see the table in docs/operating.md")
}

// second is the error of a request.
func second[T any](_ T, err error) error { return err }

func pointers[T any, P interface {
	*T
	metav1.Object
}](items []T) (all []metav1.Object) {
	for i := range items {
		all = append(all, P(&items[i]))
	}
	return all
}
