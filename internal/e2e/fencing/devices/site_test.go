package devices_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// example is where the manifests are that users copy.
var example = filepath.Join(root, "examples/fencer")

// site is a node's machine with two pods, the devices that power it, and fencers that may use
// those.
type site struct {
	t         testing.TB
	client    kubernetes.Interface
	fences    dynamic.ResourceInterface
	lab       *lab.Lab
	machine   *lab.Machine
	node      string       // that the machine is
	process   *e2e.Process // which is alive as long as the machine
	namespace string       // of the fencers, and the name of everything that they have; the pods' is without suffix
	plugs     map[string]*lab.Plug
	fabric    *lab.Plug              // between the machine and its storage; nil: there is none
	devices   map[string]*lab.Device // by the names of their templates
	// environment is of the agents.
	environment []string
	timeout     time.Duration // of an agent
	replicas    int
}

// Pods of a machine: one keeps everything in memory, the other on the storage that is reached
// through the fabric.
const (
	podPlain   = "plain"
	podStorage = "storage"
)

// storageDriver is that of the storage.
const storageDriver = "san.bellwether.invalid"

// newSite returns a site whose machine runs, without devices.
func newSite(t *testing.T) *site {
	t.Helper()
	labtest.Need(t)
	s := &site{
		t: t, plugs: map[string]*lab.Plug{}, devices: map[string]*lab.Device{}, timeout: commandTimeout,
		node: <-free,
	}
	t.Cleanup(func() { free <- s.node })
	s.process = shared.Node(s.node)
	t.Cleanup(func() { assert.NoError(t, s.process.Restart()) })
	s.lab = labtest.New(t)
	s.found()
	s.machine = lab.NewMachine(s.power)
	// Each machine is in a zone of its own, so that the loss of several is not taken for that of
	// the network.
	s.patchNode(s.node,
		fmt.Sprintf(`{"metadata":{"labels":{%q:"true",%q:%q}}}`, s.namespace, corev1.LabelTopologyZone, s.node))
	s.patchNode(spareNode, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, s.namespace))
	// The fencers of another site may have checked it.
	s.patchNode(s.node, `{"status":{"conditions":[{"type":"FenceReady","$patch":"delete"}]}}`, "status")
	s.eventually("the machine is back from the test before", func() bool { return s.ready() })
	s.run(podPlain)
	t.Cleanup(s.forget)
	return s
}

// found makes the namespaces of pods and fencers, with the rights that these have, and the password
// of the devices.
func (s *site) found() {
	s.t.Helper()
	var err error
	s.client, err = kubernetes.NewForConfig(shared.Admin())
	require.NoError(s.t, err)
	client, err := dynamic.NewForConfig(shared.Admin())
	require.NoError(s.t, err)
	s.fences = client.Resource(v1alpha1.Resource())
	pods, err := shared.Namespace(s.t.Context(), "devices")
	require.NoError(s.t, err)
	s.namespace = pods + "-fencer"
	s.permit()
	_, err = s.client.CoreV1().Secrets(s.namespace).Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "power"}, StringData: map[string]string{"password": lab.Password},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// power is what a change of its power does to the machine: its process dies, and there is another
// one with another boot ID.
func (s *site) power(on bool) {
	if !on {
		assert.NoError(s.t, s.process.Kill())
		return
	}
	_, err := s.client.CoreV1().Nodes().Patch(context.WithoutCancel(s.t.Context()), s.node,
		types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"nodeInfo":{"bootID":%q}}}`, uuid.NewUUID()), metav1.PatchOptions{}, "status")
	assert.NoError(s.t, err)
	assert.NoError(s.t, s.process.Restart())
}

// permit grants the fencers of this site what the example's manifest says, and no more.
func (s *site) permit() {
	s.t.Helper()
	manifest, err := os.ReadFile(filepath.Join(example, "rbac.yaml"))
	require.NoError(s.t, err)
	file := filepath.Join(s.t.TempDir(), "rbac.yaml")
	require.NoError(s.t, os.WriteFile(file, []byte(strings.ReplaceAll(string(manifest), "fencer", s.namespace)), 0o600))
	require.NoError(s.t, shared.Apply(s.t.Context(), file))
}

// user is what the fencers are to the API server.
func (s *site) user() string { return "system:serviceaccount:" + s.namespace + ":" + s.namespace }

func (s *site) podNamespace() string { return strings.TrimSuffix(s.namespace, "-fencer") }

// run runs a pod on the machine.
func (s *site) run(name string, volumes ...corev1.Volume) {
	s.t.Helper()
	_, err := s.client.CoreV1().Pods(s.podNamespace()).Create(s.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: s.node, Volumes: volumes,
			Containers: []corev1.Container{{Name: "main", Image: "none.invalid/none"}},
			// only a fence takes it from the machine
			Tolerations: []corev1.Toleration{{
				Operator: corev1.TolerationOpExists,
				Effect:   corev1.TaintEffectNoExecute,
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

// runOnStorage runs a pod whose volume is of the storage.
func (s *site) runOnStorage() {
	s.t.Helper()
	gigabyte := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := s.podNamespace()
	_, err := s.client.CoreV1().PersistentVolumes().Create(s.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: gigabyte, AccessModes: modes,
			ClaimRef: &corev1.ObjectReference{Namespace: s.podNamespace(), Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: storageDriver, VolumeHandle: volume},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	_, err = s.client.CoreV1().PersistentVolumeClaims(s.podNamespace()).Create(s.t.Context(),
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: volume, StorageClassName: ptr.To(""), AccessModes: modes,
				Resources: corev1.VolumeResourceRequirements{Requests: gigabyte},
			},
		}, metav1.CreateOptions{})
	require.NoError(s.t, err)
	s.run(podStorage, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}})
}

// pod is one of the machine's, nil if it is gone.
func (s *site) pod(name string) *corev1.Pod {
	s.t.Helper()
	pod, err := s.client.CoreV1().Pods(s.podNamespace()).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	return pod
}

// lose stops the machine at once, and has the control plane know. It has power still.
func (s *site) lose() {
	s.t.Helper()
	require.NoError(s.t, s.process.Pause())
	s.setReady(corev1.ConditionUnknown)
}

// setReady has the node's status say so. That of a node whose Lease has not been renewed for long
// would not last.
func (s *site) setReady(status corev1.ConditionStatus) {
	s.t.Helper()
	if status == corev1.ConditionTrue {
		renewal := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
		_, err := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(s.t.Context(), s.node,
			types.MergePatchType, renewal, metav1.PatchOptions{})
		require.NoError(s.t, err)
	}
	s.patchNode(s.node, fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test",`+
		`"lastTransitionTime":%q}]}}`,
		status, time.Now().UTC().Format(time.RFC3339)), "status")
}

// patchNode patches a node as others do.
func (s *site) patchNode(name, patch string, subresources ...string) {
	s.t.Helper()
	_, err := s.client.CoreV1().Nodes().Patch(s.t.Context(), name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	require.NoError(s.t, err)
}

func (s *site) getNode() *corev1.Node {
	s.t.Helper()
	node, err := s.client.CoreV1().Nodes().Get(s.t.Context(), s.node, metav1.GetOptions{})
	require.NoError(s.t, err)
	return node
}

func (s *site) condition(kind corev1.NodeConditionType) (found corev1.NodeCondition) {
	s.t.Helper()
	for _, c := range s.getNode().Status.Conditions {
		if c.Type == kind {
			found = c
		}
	}
	return found
}

func (s *site) ready() bool {
	s.t.Helper()
	return s.condition(corev1.NodeReady).Status == corev1.ConditionTrue
}

// readySince is a time in whole seconds.
func (s *site) readySince() time.Time {
	s.t.Helper()
	return s.condition(corev1.NodeReady).LastTransitionTime.Time
}

// record is the machine's; nil: there is none.
func (s *site) record() *v1alpha1.NodeFence {
	s.t.Helper()
	u, err := s.fences.Get(s.t.Context(), v1alpha1.Name(s.node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(s.t, err)
	f := &v1alpha1.NodeFence{}
	require.NoError(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, f))
	return f
}

func (s *site) phase() v1alpha1.Phase {
	s.t.Helper()
	if f := s.record(); f != nil {
		return f.Status.Phase
	}
	return ""
}

func (s *site) reaches(phase v1alpha1.Phase) {
	s.t.Helper()
	s.eventually("the fence is "+string(phase), func() bool { return s.phase() == phase })
}

// eventually waits until it is so.
func (s *site) eventually(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !so(); <-time.After(poll) {
		if time.Now().After(deadline) {
			var status any
			if f := s.record(); f != nil {
				status = f.Status
			}
			s.t.Fatalf("not within %v: %s; the record says %+v; the machine %+v", patience, what, status,
				s.machine.Changes())
		}
	}
}

// forget removes what fencers have left behind of the machine's record, once none runs any more.
func (s *site) forget() {
	ctx := context.WithoutCancel(s.t.Context())
	name := v1alpha1.Name(s.node)
	_, err := s.fences.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	if !apierrors.IsNotFound(err) {
		assert.NoError(s.t, err)
	}
	if err := s.fences.Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		assert.NoError(s.t, err)
	}
	assert.NoError(s.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := s.client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == v1alpha1.TaintFenced || taint.Key == corev1.TaintNodeOutOfService
		})
		_, err = s.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	}))
}
