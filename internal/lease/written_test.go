package lease

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

func TestWhatAReleaseSaysWasWritten(t *testing.T) {
	written := handover.Versions{"pods": "7", "deployments.apps": ""}
	held := RecordOf(taken("a", 15*time.Second))
	released := WithWritten(held.Release(at(time.Second)), written)
	for _, c := range []struct {
		name   string
		record Record
		want   handover.Versions
	}{
		{"released", version(released, "2", nil), written},
		{"released, and metadata of others changes", version(released, "3", func(l *coordinationv1.Lease) {
			l.Labels = map[string]string{"team": "a"}
		}), written},
		{"no record", Record{}, handover.Unknown()},
		{"held", held, handover.Unknown()},
		{"released without versions", version(held.Release(at(time.Second)), "2", nil), handover.Unknown()},
		{"emptied by another elector", version(released, "2", func(l *coordinationv1.Lease) {
			l.Spec.AcquireTime = ptr.To(at(time.Minute))
		}), handover.Unknown()},
		{"versions of another term", version(released, "2", func(l *coordinationv1.Lease) {
			l.Annotations[WrittenAnnotation] = "b" + l.Annotations[WrittenAnnotation]
		}), handover.Unknown()},
		{"no JSON", version(released, "2", func(l *coordinationv1.Lease) {
			l.Annotations[WrittenAnnotation] = strings.TrimSuffix(l.Annotations[WrittenAnnotation], "}")
		}), handover.Unknown()},
		{
			"released for a process that has died, after its successor took over",
			version(RecordOf(version(released, "2", nil).Acquired(name, "b", 15*time.Second, at(time.Minute))).
				Release(at(2*time.Minute)), "4", nil), handover.Unknown(),
		},
		{"too many", version(WithWritten(held.Release(at(time.Second)), many(5000)), "2", nil), handover.Unknown()},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, c.record.Written()) })
	}
}

func many(n int) handover.Versions {
	v := handover.Versions{}
	for i := range n {
		v[strings.Repeat("r", i%100)+string(rune('a'+i%26))+strings.Repeat("s", i/100)] = "1"
	}
	return v
}
