package endpoints

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EventRecorder records Events about the Service, which kubectl describe shows. Recorders of
// k8s.io/client-go/tools/events implement it, and so do those of controller-runtime's managers. For
// one of k8s.io/client-go/tools/record, use its NewEventRecorderAdapter. It must not block:
// heartbeats and the end of Run wait for it.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// maxNote is the longest note that the API server accepts.
const maxNote = 1024

// event records an Event about the Service.
func (r *Reconciler) event(eventType, reason, action, format string, args ...any) {
	if r.config.Events == nil {
		return
	}
	note := fmt.Sprintf(format, args...)
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") // drops a rune that was cut
	}
	about := &corev1.Service{}
	about.APIVersion, about.Kind = "v1", "Service"
	about.Namespace, about.Name, about.UID = r.config.Namespace, r.config.Service, r.serviceUID
	r.config.Events.Eventf(about, nil, eventType, reason, action, "%s", note)
}
