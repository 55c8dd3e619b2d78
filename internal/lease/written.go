package lease

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

// WrittenAnnotation states up to which version the term that was released, and those before it,
// have written each resource: the mark of the release, a space, and [handover.Versions]. Electors
// that leave annotations alone also leave this one, whose mark is then of another term.
const WrittenAnnotation = "bellwether.dev/written"

// maxWritten bounds the annotation, in bytes. A term that has written more resources omits it.
const maxWritten = 16 << 10

// Written returns up to which version the terms until this release have written each resource.
func (r Record) Written() handover.Versions {
	if !r.Released() {
		return handover.Unknown()
	}
	annotations := r.lease.Annotations
	text, ofTerm := strings.CutPrefix(annotations[WrittenAnnotation], annotations[ReleasedAnnotation]+" ")
	versions, err := handover.Parse(text)
	if err != nil || !ofTerm {
		return handover.Unknown()
	}
	return versions
}

// WithWritten records in a release what was written.
func WithWritten(l *coordinationv1.Lease, v handover.Versions) *coordinationv1.Lease {
	if text := v.String(); len(text) <= maxWritten {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, WrittenAnnotation, l.Annotations[ReleasedAnnotation]+" "+text)
	}
	return l
}
