package endpoints

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EventRecorder is implemented by the recorders of k8s.io/client-go/tools/events, which controller-runtime's managers give out, too. One of
// k8s.io/client-go/tools/record becomes one by its NewEventRecorderAdapter. It must not block: heartbeats and the end of Run wait for it.
//
// The Events are about the Service, where kubectl describe shows them.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// maxNote is how long a note the API server takes.
const maxNote = 1024

// event tells people who look at the Service.
func (r *Reconciler) event(eventType, reason, action, format string, args ...any) {
	if r.config.Events == nil {
		return
	}
	note := fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") // where a rune was cut
	}
	about := &corev1.Service{}
	about.APIVersion, about.Kind = "v1", "Service"
	about.Namespace, about.Name, about.UID = r.config.Namespace, r.config.Service, r.serviceUID
	r.config.Events.Eventf(about, nil, eventType, reason, action, "%s", note)
}
