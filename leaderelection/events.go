package leaderelection

import (
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// EventRecorder is implemented by the recorders of k8s.io/client-go/tools/events, which controller-runtime's managers
// give out, too. One of k8s.io/client-go/tools/record becomes one by its NewEventRecorderAdapter.
//
// The Events are about the Lease, where kubectl describe shows them, with the reason LeaderElection: "<identity> became
// leader", "<identity> stopped leading", and as a warning "<identity> lost the lead: <why>". It may block: nothing waits
// for it longer than 50 ms, and Events for which it has no time are dropped. That is also how long one has to get it that
// tells of a loss before the process exits; whether the recorder sends it in that time is another matter.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// maxWaiting is how many Events wait for a recorder that blocks, each with a goroutine.
const maxWaiting = 10

// maxNote is how long a note the API server takes.
const maxNote = 1024

// events are those of an elector. Calls of its methods come one after the other.
type events struct {
	recorder EventRecorder // nil: none
	lease    types.NamespacedName
	last     <-chan struct{} // closed when the recorder has the Event before
	waiting  atomic.Int32
}

func (e *events) became(t Term) {
	e.record(t, corev1.EventTypeNormal, "BecomeLeader", t.Identity+" became leader")
}

func (e *events) stopped(t Term, loss *lease.LostError) (recorded <-chan struct{}) {
	if loss != nil {
		return e.record(t, corev1.EventTypeWarning, "LoseLead", t.Identity+" lost the lead: "+loss.Err.Error())
	}
	return e.record(t, corev1.EventTypeNormal, "StopLeading", t.Identity+" stopped leading")
}

// record gives the recorder an Event after those before it. It does not wait for that.
func (e *events) record(t Term, eventType, action, note string) (recorded <-chan struct{}) {
	done := make(chan struct{})
	if e.recorder == nil || e.waiting.Load() == maxWaiting {
		close(done)
		return done
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") // where a rune was cut
	}
	about := &coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.lease.Namespace, Name: e.lease.Name, UID: t.LeaseUID},
	}
	before := e.last
	e.last = done
	e.waiting.Add(1)
	go func() {
		defer close(done)
		defer e.waiting.Add(-1)
		if before != nil {
			<-before
		}
		e.recorder.Eventf(about, nil, eventType, "LeaderElection", action, "%s", note)
	}()
	return done
}
