package leaderelection

import (
	"strings"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// maxWaiting bounds the Events, and their goroutines, that wait for a recorder that blocks.
const maxWaiting = 10

// maxNote is the API server's limit for a note.
const maxNote = 1024

// eventLog records the Events of an elector. Its methods are not called concurrently.
type eventLog struct {
	recorder events.EventRecorder // may be nil
	lease    types.NamespacedName
	last     <-chan struct{} // closed when the recorder has the last Event
	waiting  atomic.Int32
}

func (e *eventLog) became(t Term) {
	e.record(t, corev1.EventTypeNormal, "BecomeLeader", t.Identity+" became leader")
}

func (e *eventLog) stopped(t Term, loss *lease.LostError) (recorded <-chan struct{}) {
	if loss != nil {
		return e.record(t, corev1.EventTypeWarning, "LoseLead", t.Identity+" lost the lead: "+loss.Err.Error())
	}
	return e.record(t, corev1.EventTypeNormal, "StopLeading", t.Identity+" stopped leading")
}

// record passes an Event to the recorder after the earlier ones. It does not wait.
func (e *eventLog) record(t Term, eventType, action, note string) (recorded <-chan struct{}) {
	done := make(chan struct{})
	if e.recorder == nil || e.waiting.Load() == maxWaiting {
		close(done)
		return done
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") // drop a rune that was cut
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
