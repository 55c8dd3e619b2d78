package endpoints

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

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
