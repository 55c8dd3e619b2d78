package handover_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/bellwether-k8s/bellwether/internal/handover"
)

var (
	pods       = corev1.Resource("pods")
	configMaps = corev1.Resource("configmaps")
)

func TestWhatALogKnows(t *testing.T) {
	begin := func(l *handover.Log) *handover.Write { return l.Begin(pods, handover.Whole) }
	for _, c := range []struct {
		name   string
		before handover.Versions
		act    func(l *handover.Log)
		want   handover.Versions
	}{
		{name: "nothing was written", want: handover.Versions{}},
		{
			name: "the terms before have written", before: handover.Versions{"pods": "7"},
			want: handover.Versions{"pods": "7"},
		},
		{name: "an update", act: func(l *handover.Log) { begin(l).Stored("9") }, want: handover.Versions{"pods": "9"}},
		{
			name: "an update that changes nothing", before: handover.Versions{"pods": "7"},
			act: func(l *handover.Log) { begin(l).Stored("5") }, want: handover.Versions{"pods": "7"},
		},
		{
			name: "answers in another order than the writes", act: func(l *handover.Log) {
				first, second := begin(l), begin(l)
				second.Stored("12")
				first.Stored("11")
			}, want: handover.Versions{"pods": "12"},
		},
		{name: "under way", act: func(l *handover.Log) { begin(l) }, want: handover.Versions{"pods": ""}},
		{name: "refused", act: func(l *handover.Log) { begin(l).Refused() }, want: handover.Versions{}},
		{name: "without an answer", act: func(l *handover.Log) {
			begin(l).Lost()
			begin(l).Above("9")
		}, want: handover.Versions{"pods": ""}},
		{name: "a deletion", act: func(l *handover.Log) {
			begin(l).Stored("9")
			begin(l).Unseen()
		}, want: handover.Versions{"pods": ""}},
		{name: "a deletion, then an update", act: func(l *handover.Log) {
			begin(l).Unseen()
			begin(l).Stored("9")
		}, want: handover.Versions{"pods": ""}},
		{name: "a deletion, then a creation", act: func(l *handover.Log) {
			begin(l).Unseen()
			begin(l).Above("9")
		}, want: handover.Versions{"pods": "9"}},
		{name: "a deletion beside a creation", act: func(l *handover.Log) {
			created := begin(l)
			begin(l).Unseen()
			created.Above("9")
		}, want: handover.Versions{"pods": ""}},
		{name: "the first outcome counts", act: func(l *handover.Log) {
			w := begin(l)
			w.Stored("9")
			w.Unseen()
		}, want: handover.Versions{"pods": "9"}},
		{name: "versions that cannot be compared", act: func(l *handover.Log) {
			begin(l).Stored("9")
			begin(l).Stored("x")
		}, want: handover.Versions{"pods": ""}},
		{
			name: "an update, and the terms before are not known", before: handover.Unknown(),
			act: func(l *handover.Log) { begin(l).Stored("9") }, want: handover.Versions{"*": "", "pods": ""},
		},
		{
			name: "a list, and the terms before are not known", before: handover.Unknown(),
			act: func(l *handover.Log) { begin(l).Above("9") }, want: handover.Versions{"*": "", "pods": "9"},
		},
		{name: "a resource that is not known", act: func(l *handover.Log) {
			begin(l).Above("9")
			l.Blind()
		}, want: handover.Unknown()},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := handover.NewLog(c.before)
			if c.act != nil {
				c.act(l)
			}
			assert.Equal(t, c.want, l.Versions())
			read, err := handover.Parse(l.Versions().String())
			require.NoError(t, err)
			assert.Equal(t, c.want, read)
		})
	}
}

func TestANilLogNotesNothing(t *testing.T) {
	var l *handover.Log
	l.Blind()
	w := l.Begin(pods, handover.Whole)
	w.Stored("1")
	w.Answered(nil)
	_, known := l.Before(pods)
	assert.False(t, known)
}

func TestVersionsOfOneResource(t *testing.T) {
	v := handover.Versions{"pods": "7", "configmaps": "", "deployments.apps": "8"}
	for _, c := range []struct {
		resource schema.GroupResource
		version  string
		known    bool
	}{
		{pods, "7", true},
		{configMaps, "", false},
		{schema.GroupResource{Group: "apps", Resource: "deployments"}, "8", true},
		{corev1.Resource("secrets"), "", true},
		{corev1.Resource("events"), "", false},
		{schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "", false},
		{schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, "", false},
	} {
		version, known := v.Of(c.resource)
		assert.Equal(t, c.version, version, c.resource)
		assert.Equal(t, c.known, known, c.resource)
		version, known = handover.Unknown().Of(c.resource)
		assert.Empty(t, version)
		assert.False(t, known)
	}
}

func TestTextsThatAreNoVersions(t *testing.T) {
	for _, text := range []string{"", "null", "{", `{"pods":7}`, `["pods"]`} {
		_, err := handover.Parse(text)
		assert.Error(t, err, text)
	}
}

// etcd is a store whose version grows with each change. A change of a resource that no log of the
// term has noted as unknown must not be above what the log says.
type etcd struct {
	version int
	highest map[schema.GroupResource]int // of the changes that were carried out, or may still be
	objects map[schema.GroupResource]int // version of the one object, which is updated
}

// sent is a write, from before it is sent until its outcome is noted.
type sent struct {
	resource schema.GroupResource
	write    *handover.Write
	outcome  func() // nil: not carried out yet
}

const never = 1 << 30 // a change that may be carried out at any time

func (e *etcd) change(r schema.GroupResource) string {
	e.version++
	e.highest[r] = max(e.highest[r], e.version)
	return strconv.Itoa(e.version)
}

// carryOut makes one change, and returns how its outcome is noted.
func (e *etcd) carryOut(t *rapid.T, s *sent) func() {
	switch rapid.SampledFrom([]string{"create", "update", "same", "delete", "refuse", "lose"}).Draw(t, "outcome") {
	case "create":
		version := e.change(s.resource)
		return func() { s.write.Above(version) }
	case "update":
		version := e.change(s.resource)
		e.objects[s.resource] = e.version
		return func() { s.write.Stored(version) }
	case "same": // answered with the version of an older write
		version := strconv.Itoa(max(1, e.objects[s.resource]))
		return func() { s.write.Stored(version) }
	case "delete":
		e.change(s.resource)
		return s.write.Unseen
	case "refuse":
		return s.write.Refused
	default:
		e.highest[s.resource] = never
		return s.write.Lost
	}
}

// Terms follow each other. In each, writes are sent, carried out and answered in any order. What the
// last one leaves is never below a change.
func TestNoChangeIsAboveWhatALogKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &etcd{version: 1, highest: map[schema.GroupResource]int{}, objects: map[schema.GroupResource]int{}}
		before := rapid.SampledFrom([]handover.Versions{{}, handover.Unknown()}).Draw(t, "before")
		if _, unknown := before["*"]; unknown {
			e.change(pods)
			e.change(configMaps)
		}
		for range rapid.IntRange(1, 3).Draw(t, "terms") {
			l := handover.NewLog(maps.Clone(before))
			var open []*sent
			for range rapid.IntRange(0, 20).Draw(t, "steps") {
				e.version += rapid.IntRange(0, 2).Draw(t, "others")
				i := rapid.IntRange(-1, len(open)-1).Draw(t, "which")
				switch {
				case i < 0:
					r := rapid.SampledFrom([]schema.GroupResource{pods, configMaps}).Draw(t, "resource")
					open = append(open, &sent{resource: r, write: l.Begin(r, handover.Whole)})
				case open[i].outcome == nil:
					open[i].outcome = e.carryOut(t, open[i])
				default:
					open[i].outcome()
					open = slices.Delete(open, i, i+1)
				}
			}
			for _, s := range open { // the release has waited for them, and their answers are not read
				if s.outcome == nil {
					e.carryOut(t, s)
				}
			}
			before = l.Versions()
			for r, highest := range e.highest {
				version, known := before.Of(r)
				if !known {
					continue
				}
				n, _ := strconv.Atoi(version)
				if n < highest {
					t.Fatal(fmt.Sprintf("%s was changed at %d, and %v were left", r, highest, before))
				}
			}
			for r, highest := range e.highest {
				if highest == never { // it has been carried out, or never will be
					e.change(r)
					e.highest[r] = e.version
				}
			}
		}
	})
}
