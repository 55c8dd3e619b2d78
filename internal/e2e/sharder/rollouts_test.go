package sharder_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

var podKind = kind{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod", namespaced: true}

// A ring of Deployments and ReplicaSets, with Pods as children, beside the real controllers, while
// users roll out, undo and scale: for as long as BELLWETHER_SOAK says. What controllers copy, and
// users restore, makes no object change its owner, and no shard send one back more than once for a
// real change.
func TestRollOutsBesideTheRealControllers(t *testing.T) {
	t.Parallel()
	lasts := time.Duration(0) // one change of each kind
	if soak := os.Getenv(e2e.SoakEnv); soak != "" {
		var err error
		lasts, err = time.ParseDuration(soak)
		require.NoError(t, err)
	}
	c := newClusterIn(t, e2e.Start(t, e2e.Options{ControllerManager: true}), deployments, replicaSets)
	c.children = []kind{podKind}
	for _, name := range []string{"a", "b"} {
		c.start(name, "-work=100ms", "-pace=1s", "-scan-interval=5s")
	}
	c.requireSettled("a", "b")
	begun := time.Now()
	const apps = 4
	r := rollOuts{c: c, changes: map[string]int{}}
	for i := range apps {
		r.create(fmt.Sprint("d", i))
	}
	c.requirePlaced("a", "b")
	kinds := []func(name string){r.rollOut, r.rollOut, r.undo, r.scale}
	for n := 0; n < len(kinds) || time.Since(begun) < lasts; n++ {
		change := kinds[n%len(kinds)]
		for i := range apps {
			change(fmt.Sprint("d", i))
		}
		for i := range apps {
			r.requireDone(fmt.Sprint("d", i))
		}
	}
	c.requirePlaced("a", "b")
	r.requirePodsPlaced()
	// One that has begun now finds the annotations of ReplicaSets that an undo has left on Deployments.
	c.requireScans(2)
	c.requirePlaced("a", "b")
	quiet := time.Now()
	c.requireScans(3)
	assert.Empty(t, c.costs(quiet), "writes when all is over")
	r.requireFewBounces(begun)
	c.requireExclusion()
}

// rollOuts is what users do, and how often.
type rollOuts struct {
	c       *cluster
	total   int
	changes map[string]int // by Deployment
}

func (r *rollOuts) create(name string) {
	r.c.t.Helper()
	labels := map[string]string{"test": r.c.namespace, "app": name}
	_, err := r.c.client.AppsV1().Deployments(r.c.namespace).Create(r.c.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			RevisionHistoryLimit: ptr.To[int32](3),
			// Nothing runs these Pods: a roll-out must not wait for them.
			Strategy: appsv1.DeploymentStrategy{
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromString("100%"))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none.invalid/0"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(r.c.t, err)
	r.changed(name)
	r.requireDone(name)
}

func (r *rollOuts) changed(name string) {
	r.total++
	r.changes[name]++
}

func (r *rollOuts) rollOut(name string) {
	r.c.t.Helper()
	r.patch(name, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"none.invalid/`+
		`%d"}]}}}}`, r.total))
}

func (r *rollOuts) undo(name string) {
	r.c.t.Helper()
	undo(r.c.t, r.c.client, r.c.namespace, name)
	r.changed(name)
}

func (r *rollOuts) scale(name string) {
	r.c.t.Helper()
	r.patch(name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, rand.N(4)))
}

func (r *rollOuts) patch(name, patch string) {
	r.c.t.Helper()
	_, err := r.c.client.AppsV1().Deployments(r.c.namespace).Patch(r.c.t.Context(), name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	require.NoError(r.c.t, err)
	r.changed(name)
}

// requireDone waits until the controllers have done what a Deployment asks for.
func (r *rollOuts) requireDone(name string) {
	r.c.t.Helper()
	r.c.eventually(func() bool {
		d, err := r.c.client.AppsV1().Deployments(r.c.namespace).Get(r.c.t.Context(), name, metav1.GetOptions{})
		require.NoError(r.c.t, err)
		return d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
			d.Status.Replicas == *d.Spec.Replicas
	}, "%s is not rolled out", name)
}

// requirePodsPlaced waits until all Pods are with the shards of their ReplicaSets.
func (r *rollOuts) requirePodsPlaced() {
	r.c.t.Helper()
	var wrong []string
	r.c.eventually(func() bool {
		shards := map[types.UID]string{}
		for _, o := range r.c.list() {
			shards[o.GetUID()] = o.GetLabels()[shardLabel]
		}
		pods, err := r.c.client.CoreV1().Pods(r.c.namespace).List(r.c.t.Context(), metav1.ListOptions{})
		require.NoError(r.c.t, err)
		wrong = wrong[:0]
		for _, p := range pods.Items {
			if owner := metav1.GetControllerOf(&p); p.Labels[shardLabel] != shards[owner.UID] {
				wrong = append(wrong, p.Name)
			}
		}
		return len(wrong) == 0
	}, "Pods are not with their ReplicaSets: %q", &wrong)
}

// requireFewBounces asserts that no object has had two owners, and that shards have sent objects of
// a Deployment back once at most for each of its changes.
func (r *rollOuts) requireFewBounces(since time.Time) {
	r.c.t.Helper()
	objects, moves := 0, map[string]int{}
	r.c.referee.mu.Lock()
	for _, h := range r.c.referee.objects {
		objects++
		last := ""
		for _, v := range h.versions {
			if v.valid && v.owner.Shard != last {
				if last != "" {
					moves[h.name]++
				}
				last = v.owner.Shard
			}
		}
	}
	r.c.referee.mu.Unlock()
	assert.Empty(r.c.t, moves, "changes of owners, although the members stay the same")

	writes, bounces, all := map[string]int{}, map[string]int{}, 0
	for _, e := range r.c.audited(since) {
		if e.Verb != "patch" || e.Code != 200 {
			continue
		}
		switch part(e) {
		case "sharder":
			writes[e.Resource]++
		case "shard":
			all++
			bounces[e.Name]++
		}
	}
	for name, n := range bounces {
		if most, ok := r.changes[name]; ok { // that of a ReplicaSet or of a Pod has had one change: it came into being
			assert.LessOrEqual(r.c.t, n, most, "%s was sent back", name)
		}
	}
	assert.LessOrEqual(r.c.t, all, r.total, "objects were sent back")
	line := fmt.Sprintf("%d changes of %d Deployments by users in %v: %d Deployments and ReplicaSets, %d changes of "+
		"owners, %d objects sent back by shards, patches of the sharder by resource: %v",
		r.total, len(r.changes), time.Since(since).Round(time.Second), objects, len(moves), all, writes)
	r.c.t.Log(line)
	if os.Getenv(e2e.SoakEnv) != "" {
		fmt.Println("soak: " + r.c.t.Name() + ": " + line)
	}
}
