package lease

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodAnnotation names the Pod of a record's holder, in the namespace of the Lease. The kubelet's
// report that its container has ended then proves that the holder has ended. The value is
// <name>/<UID>/<margin>; a request of the holder may be under way for a margin.
const PodAnnotation = "bellwether.dev/pod"

// PodProcess is the process in a record whose end its Pod can prove.
type PodProcess struct {
	Lease   types.NamespacedName
	Pod     string
	UID     types.UID // of the Pod
	Process string    // its mark
	Margin  time.Duration
}

// NamePod names the Pod of the process that writes l.
func NamePod(l *coordinationv1.Lease, name string, uid types.UID, margin time.Duration) {
	metav1.SetMetaDataAnnotation(&l.ObjectMeta, PodAnnotation, name+"/"+string(uid)+"/"+margin.String())
}

// PodProcess returns the process that holds a lease. ok is false unless it has written its mark and
// its Pod.
func (r Record) PodProcess(name types.NamespacedName) (p PodProcess, ok bool) {
	process, _ := r.process()
	if !r.Ours() {
		return PodProcess{}, false
	}
	pod, rest, _ := strings.Cut(r.lease.Annotations[PodAnnotation], "/")
	last := strings.LastIndex(rest, "/") // before it may be anything, such as a UID in a test
	if last < 0 {
		return PodProcess{}, false
	}
	margin, err := time.ParseDuration(rest[last+1:])
	p = PodProcess{Lease: name, Pod: pod, UID: types.UID(rest[:last]), Margin: margin, Process: process}
	return p, p.Pod != "" && p.UID != "" && p.Process != "" && err == nil && margin >= 0
}

// EndedIn reports whether a version of the Pod proves that the process has ended: the kubelet has
// read the process' mark in the message of a container that has terminated.
//
// Nothing else does, because the control plane writes a final phase for a node that is lost. Even
// if all containers have terminated then, the kubelet may have started the next one, with this
// process.
func (p PodProcess) EndedIn(pod *corev1.Pod) bool {
	if pod.Name != p.Pod || pod.Namespace != p.Lease.Namespace || pod.UID != p.UID {
		return false
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses) {
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if state.Terminated != nil && strings.Contains(state.Terminated.Message, p.Process) {
				return true
			}
		}
	}
	return false
}
