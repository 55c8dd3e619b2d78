package devices_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// What really happened is judged by what the devices have done and when, and by what the API server
// was asked for and when. What a fencer says of itself counts for nothing.

// count returns how many commands of a kind have reached a plug.
func count(p *lab.Plug, on bool) (n int) {
	for _, c := range p.Commands() {
		if c.On == on {
			n++
		}
	}
	return n
}

// releases are the requests by which fencers have taken pods from the machine.
func (s *site) releases() (all []e2e.AuditEvent) {
	s.t.Helper()
	events, err := shared.Audit()
	require.NoError(s.t, err)
	for _, e := range events {
		if e.User == s.user() && e.Resource == "pods" && e.Write() && e.Code < 300 {
			all = append(all, e)
		}
	}
	return all
}

// requireReleasesProved requires that the machine had no power, from the beginning of each release
// to its end. A pod that does nothing but with its storage may go while the machine cannot reach
// that.
func (s *site) requireReleasesProved() {
	s.t.Helper()
	for _, e := range s.releases() {
		proved := off(s.machine.Changes(), e.Received, e.At)
		if s.fabric != nil && e.Name == podStorage {
			proved = proved || off(s.fabric.Changes(), e.Received, e.At)
		}
		assert.True(s.t, proved, "%s of pod %s from %v to %v, and the machine ran: %+v", e.Verb, e.Name, e.Received,
			e.At, s.machine.Changes())
	}
}

// off says that something that was on at first was off during all of the time.
func off(changes []lab.Change, from, to time.Time) bool {
	on := true
	for _, c := range changes {
		if c.At.After(to) {
			break
		}
		if c.At.After(from) && c.On {
			return false
		}
		if !c.At.After(from) {
			on = c.On
		}
	}
	return !on
}

// requireFencedOnce requires that each of these devices got one request to switch off and that the
// machine lost its power once. Its pods must have been released while it had no power, and the node
// must be well again.
func (s *site) requireFencedOnce(devices ...string) {
	s.t.Helper()
	for name, plug := range s.plugs {
		want := 0
		if slices.Contains(devices, name) {
			want = 1
		}
		assert.Equal(s.t, want, count(plug, false), "commands to switch %s off: %+v", name, plug.Commands())
		assert.True(s.t, plug.On(), "%s is off", name)
	}
	changes := s.machine.Changes()
	assert.Len(s.t, changes, 2, "the machine has to go off and on: %+v", changes)
	assert.True(s.t, s.machine.On())
	assert.True(s.t, s.ready())
	assert.Equal(s.t, v1alpha1.PhaseFinal, s.phase())
	s.requireUnmarked()
	assert.NotEmpty(s.t, s.releases())
	s.requireReleasesProved()
	assert.Nil(s.t, s.pod(podPlain))
	assert.Nil(s.t, s.pod(podStorage))
}

// requireUnmarked requires that nothing of a fence is left on the node.
func (s *site) requireUnmarked() {
	s.t.Helper()
	for _, taint := range s.getNode().Spec.Taints {
		assert.NotContains(s.t, []string{v1alpha1.TaintFenced, corev1.TaintNodeOutOfService}, taint.Key)
	}
}

// requireNotFenced requires that nothing was taken from a machine that ran all the time.
func (s *site) requireNotFenced() {
	s.t.Helper()
	assert.Empty(s.t, s.machine.Changes(), "the machine was to run")
	assert.Empty(s.t, s.releases())
	assert.NotNil(s.t, s.pod(podPlain))
	f := s.record()
	assert.False(s.t, f.Status.Verified, "%+v", f.Status)
	assert.Equal(s.t, v1alpha1.ReleasedNo, f.Status.Released)
}
