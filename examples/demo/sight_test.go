package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

func TestChangesAreReported(t *testing.T) {
	var seen sight
	tell := func(change func(*sight)) (told []string) {
		now := seen
		change(&now)
		for _, n := range now.since(seen) {
			told = append(told, n.who+" "+n.what)
		}
		seen = now
		return told
	}
	for _, step := range []struct {
		change func(*sight)
		told   []string
	}{
		{
			func(s *sight) { s.ready, s.pod, s.podNode = true, "1", "one" },
			[]string{"one Ready", "db-0 runs on node one"},
		},
		{func(s *sight) { s.checked = true }, []string{"fencer leads, and has read the BMC of one"}},
		{func(*sight) {}, nil},
		{func(s *sight) { s.ready, s.checked = false, false }, []string{"one not Ready"}},
		{func(s *sight) { s.phase = v1alpha1.PhaseDetected }, []string{"fence Detected: will it be back within 2s?"}},
		{
			func(s *sight) { s.phase, s.marked = v1alpha1.PhaseIsolated, true },
			[]string{"fence Isolated: it has 3s more to come back", "one tainted: NoSchedule"},
		},
		{func(s *sight) { s.pod, s.podNode = "", "" }, []string{"db-0 the old Pod is gone"}},
		{func(s *sight) { s.pod = "2" }, nil},
		{func(s *sight) { s.podNode = "two" }, []string{"db-0 runs on node two"}},
		{func(s *sight) { s.phase = v1alpha1.PhaseError }, []string{"fence Error"}},
		{func(s *sight) { s.marked = false }, []string{"one not tainted any more"}},
	} {
		assert.Equal(t, step.told, tell(step.change))
	}
}

// A Pod that is replaced between two looks was released, too.
func TestReplacedPodIsGone(t *testing.T) {
	before := sight{pod: "1", podNode: "one"}
	assert.Equal(t, []news{{"db-0", "the old Pod is gone"}, {"db-0", "runs on node two"}},
		sight{pod: "2", podNode: "two"}.since(before))
}

func TestTimesCountSinceTheMachineHung(t *testing.T) {
	f := &fencing{seen: sight{ready: true, pod: "1", podNode: lostNode}}
	f.note(sight{pod: "0"}) // before it does
	f.note(sight{ready: true, pod: "1", podNode: lostNode})
	assert.Zero(t, f.lost)
	assert.Zero(t, f.freed)
	f.hung = at(1)
	f.note(sight{ready: true, pod: "1", podNode: lostNode})
	assert.Zero(t, f.back, "it was not away yet")
	f.note(sight{pod: "1", podNode: lostNode})
	assert.NotZero(t, f.lost)
	assert.Zero(t, f.freed)
	f.note(sight{})
	freed := f.freed
	assert.NotZero(t, freed)
	f.note(sight{ready: true, pod: "2", podNode: spareNode})
	assert.Equal(t, freed, f.freed, "the first time counts")
	assert.NotZero(t, f.moved)
	assert.NotZero(t, f.back)
}
