package leasehold

import (
	"cmp"
	"os"
	"time"

	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// TerminationLog is where the kubelet reads the termination message of a container.
const TerminationLog = "/dev/termination-log"

// Pod is the Pod of this process. The zero Pod names no Pod.
type Pod struct {
	Name string
	UID  types.UID
	// MinUptime is how long a term must have lasted for the record to name the Pod. A process that
	// dies earlier may be in a crash loop.
	MinUptime time.Duration
	Log       string // a file: [TerminationLog]
}

// withDefaults returns p with its zero fields set, or the zero Pod if p has no UID or name.
func (p Pod) withDefaults() Pod {
	if p.Name == "" {
		p.Name, _ = os.Hostname()
	}
	p.Log = cmp.Or(p.Log, TerminationLog)
	if p.UID == "" || p.Name == "" {
		return Pod{}
	}
	return p
}

// badge identifies a process in reports of the kubelet by its mark, which only the termination
// message of its own container has.
type badge struct {
	config *Config
	shown  bool // an attempt was made
	err    error
}

// annotate names the Pod in a record that this process is about to write in a term of this age, or
// removes the name of another one.
func (b *badge) annotate(l *coordinationv1.Lease, age time.Duration) {
	delete(l.Annotations, lease.PodAnnotation)
	holds := ptr.Deref(l.Spec.HolderIdentity, "") != ""
	if pod := b.config.Pod; pod.UID != "" && holds && age >= pod.MinUptime && b.show() {
		lease.NamePod(l, pod.Name, pod.UID, b.config.Timing.Margin)
	}
}

// show appends the mark to the termination message, once, before a record names the Pod.
func (b *badge) show() bool {
	if b.shown {
		return b.err == nil
	}
	b.shown = true
	c := b.config
	file, err := os.OpenFile(c.Pod.Log, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString("bellwether: lease " + c.Lease.String() + ", process " + c.Process + "\n")
		if closed := file.Close(); err == nil {
			err = closed
		}
	}
	if b.err = err; err != nil {
		c.Log.Info("no termination message: if this container is killed, the lease is free when it has expired",
			zap.Error(err))
	}
	return err == nil
}
