package fencing_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// The node is Ready again just before the controller looks at it for the last time: it keeps its
// power, every time.
func TestNodeIsBackBeforeTheLastLook(t *testing.T) {
	t.Parallel()
	rounds := 20
	if soaking() {
		rounds = 200
	}
	const lanes = 5
	for lane := range lanes {
		t.Run(fmt.Sprintf("lane %d", lane+1), func(t *testing.T) {
			t.Parallel()
			newPaperLab(t).returnsInTheLastMoment(lane, rounds/lanes)
		})
	}
}

// moments are when a node comes back: just before a request of the controller is sent, or just
// before it has the answer.
var moments = []struct {
	name           string
	method, record string // of the request, and what its body has
	after          bool
}{
	{"before its power is about to be cut", http.MethodPut, `"phase":"Powering"`, false},
	{"when its power is about to be cut", http.MethodPut, `"phase":"Powering"`, true},
	{"before the command is written down", http.MethodPut, `"state":"OffIntent"`, false},
	{"when the command is written down", http.MethodPut, `"state":"OffIntent"`, true},
	{"before the last look", http.MethodGet, "", false}, // of those after the command was written down
}

// returnsInTheLastMoment has the node fail and return so often.
func (l *lab) returnsInTheLastMoment(first, rounds int) {
	moment := &moment{lab: l}
	l.control(moment.roundTrip)
	l.checked()
	for round := range rounds {
		which := (first + round) % len(moments)
		moment.arm(which)
		// its Lease is renewed: the control plane would say that it is lost at a moment of its own
		l.setReady(corev1.ConditionUnknown)
		l.eventually("the node has come back "+moments[which].name, moment.over)
		l.eventually("the fence has ended", func() bool {
			f := l.record()
			return f.Status.Phase == v1alpha1.PhaseFinal && f.Status.Incident == int64(round+1)
		})
		assert.Empty(l.t, l.rack.Events(), moments[which].name)
		l.requireUnmarked()
	}
}

// moment is when the node comes back.
type moment struct {
	*lab
	mu      sync.Mutex
	armed   bool
	which   int
	written bool // the command is
}

func (m *moment) arm(which int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armed, m.which, m.written = true, which, false
}

func (m *moment) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.armed
}

func (m *moment) roundTrip(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	what, come := moments[m.which], false
	if m.armed && r.Method == what.method {
		come = what.record != "" && strings.Contains(body, what.record) || what.record == "" && m.written &&
			strings.HasSuffix(r.URL.Path, "/nodes/"+m.machine)
	}
	m.written = m.written || strings.Contains(body, `"state":"OffIntent"`)
	if come {
		m.armed = false
	}
	m.mu.Unlock()
	if come && !what.after {
		m.setReady(corev1.ConditionTrue)
	}
	answer, err := next.RoundTrip(r)
	if come && what.after {
		m.setReady(corev1.ConditionTrue)
	}
	return answer, err
}
