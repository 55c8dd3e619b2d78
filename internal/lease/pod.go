package lease

import (
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// PodAnnotation names the Pod of a record's holder, in the namespace of the Lease. The kubelet's
// report that its container has ended is then proof that the holder has ended. The value is
// <name>/<UID>/<margin>. A request of the holder may be under way for a margin.
const PodAnnotation = "bellwether.dev/pod"

// TerminationLog is where the kubelet reads the termination message of a container.
const TerminationLog = "/dev/termination-log"

// Pod is the Pod of this process. The zero Pod is none.
type Pod struct {
	Name string
	UID  types.UID
	// MinUptime is how long a term must have lasted for the record to name the Pod. A process that
	// dies earlier may be in a crash loop.
	MinUptime time.Duration
	Log       string // a file: [TerminationLog]
}

// PodNameProblems returns why a name is not that of a Pod. The empty name has none.
func PodNameProblems(name string) []string {
	if name == "" {
		return nil
	}
	return validation.IsDNS1123Subdomain(name)
}

// WithDefaults returns p with its zero fields set. A Pod without a UID or a name is none.
func (p Pod) WithDefaults() Pod {
	if p.Name == "" {
		p.Name, _ = os.Hostname()
	}
	if p.Log == "" {
		p.Log = TerminationLog
	}
	if p.UID == "" || p.Name == "" {
		return Pod{}
	}
	return p
}

// badge makes a process known to the kubelet: its mark is in the termination message of its
// container, which no other container has.
type badge struct {
	pod     Pod
	lease   types.NamespacedName
	process string
	margin  time.Duration
	log     *zap.Logger

	shown bool // an attempt was made
	err   error
}

// annotate names the Pod in a record that this process is about to write in a term of this age, or
// removes the name of another one.
func (b *badge) annotate(l *coordinationv1.Lease, age time.Duration) {
	delete(l.Annotations, PodAnnotation)
	holds := ptr.Deref(l.Spec.HolderIdentity, "") != ""
	if b.pod.UID != "" && holds && age >= b.pod.MinUptime && b.show() {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, PodAnnotation,
			b.pod.Name+"/"+string(b.pod.UID)+"/"+b.margin.String())
	}
}

// show appends the mark to the termination message, once, before a record names the Pod.
func (b *badge) show() bool {
	if b.shown {
		return b.err == nil
	}
	b.shown = true
	file, err := os.OpenFile(b.pod.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString("bellwether: lease " + b.lease.String() + ", process " + b.process + "\n")
		if closed := file.Close(); err == nil {
			err = closed
		}
	}
	if b.err = err; err != nil {
		b.log.Info("no termination message: if this container is killed, the lease is free when it has expired",
			zap.Error(err))
	}
	return err == nil
}

// named is the process in a record whose end its Pod can prove.
type named struct {
	lease   types.NamespacedName
	pod     string
	uid     types.UID
	process string
	margin  time.Duration
}

// named returns the Pod and the process of the holder of a lease. ok is false unless the holder has
// written both.
func (r Record) named(lease types.NamespacedName) (n named, ok bool) {
	if !r.Ours() || r.Holder() == "" {
		return named{}, false
	}
	pod, rest, _ := strings.Cut(r.lease.Annotations[PodAnnotation], "/")
	last := strings.LastIndex(rest, "/") // before it may be anything, such as a UID in a test
	if last < 0 {
		return named{}, false
	}
	margin, err := time.ParseDuration(rest[last+1:])
	n = named{
		lease: lease, pod: pod, uid: types.UID(rest[:last]), margin: margin,
		process: r.lease.Annotations[ProcessAnnotation],
	}
	return n, n.pod != "" && n.uid != "" && n.process != "" && err == nil && margin >= 0
}

// endedIn reports whether a version of the Pod proves that the process has ended: the kubelet has read
// the process' mark in the message of a container that has terminated.
//
// Nothing else does. The control plane writes a final phase for a node that is lost. Even if all
// containers have terminated then, the kubelet may have started the next one, with this process.
func (n named) endedIn(pod *corev1.Pod) bool {
	if pod.Name != n.pod || pod.Namespace != n.lease.Namespace || pod.UID != n.uid {
		return false
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses,
		pod.Status.EphemeralContainerStatuses) {
		for _, state := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			if state.Terminated != nil && strings.Contains(state.Terminated.Message, n.process) {
				return true
			}
		}
	}
	return false
}
