package statemachine

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// walk is a way through the states of an exploration, and beside it a record, a memory and a clock
// that no one has abstracted from.
type walk struct {
	t      *testing.T
	x      *explorer
	random *rand.Rand
	s      State
	status v1alpha1.Status
	memory Memory
	now    clock.Reading
	labels []string

	renewals int // of the node's Lease
	dump     clock.Reading
}

// TestAbstractionLosesNothing walks at random. Whenever the decision on the true record and memory
// is to write or to do something, it is what the exploration decides in the state that stands for
// them; but that before the exploration may have to let more time pass, and either of the two may
// look or read once more.
func TestAbstractionLosesNothing(t *testing.T) {
	for i, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.naive = &naive{}
			acts := 0
			for seed := range uint64(walks) {
				w := &walk{
					t: t, x: &explorer{c: &c, d: c.naive, recording: true},
					random: rand.New(rand.NewPCG(uint64(i), seed)),
					s:      c.initial(), now: now,
				}
				w.memory = NewMemory(w.now)
				for range 600 {
					acts += w.step()
				}
			}
			require.Greater(t, acts, 10*walks, "walks that stand still prove nothing")
		})
	}
}

func (w *walk) pass(d time.Duration) {
	w.now = clock.Reading{Wall: w.now.Wall.Add(d), Monotonic: w.now.Monotonic + d}
}

// step takes one edge, and returns 1 if the controller has done something.
func (w *walk) step() int {
	x, s := w.x, w.s
	x.out, x.deeds = nil, nil
	quiet := !s.Up || s.Calling != 0
	x.process(s)
	if w.random.IntN(8) == 0 {
		x.machine(s)
		x.human(s)
	} else if w.random.IntN(6) > 0 && !quiet {
		x.out, x.deeds = nil, nil
	}
	if s.Calling != 0 && (len(x.out) == 0 || w.random.IntN(4) > 0) {
		x.out, x.deeds = nil, nil
		x.answers(s)
	}
	if len(x.out) > 0 {
		w.take(nil)
		return 0
	}
	if s.Stale && w.random.IntN(3) > 0 {
		w.s.reload()
		return 0
	}
	return w.decide()
}

// input is that of the state with the true record, memory and time.
func (w *walk) input(shown Input) Input {
	in := shown
	in.Fence = in.Fence.DeepCopy()
	in.Fence.Status, in.Memory, in.Dump, in.Now = w.status, w.memory, w.dump, w.now
	return in
}

func (w *walk) decide() int {
	x, s := w.x, w.s
	shown := x.c.input(&s)
	want, got := Transition(shown), Transition(w.input(shown))
	if !w.same(want, got) {
		_, waits := want.(Wait)
		switch step := want.(type) {
		case Look:
			x.look(s, &shown)
			w.take(want)
			return 0
		case Read:
			x.read(s, &shown, step)
			w.take(want)
			return 0
		}
		switch step := got.(type) {
		case Look:
			x.look(s, &shown)
			w.take(got)
			return 0
		case Read:
			x.read(s, &shown, step)
			w.take(got)
			return 0
		case Wait:
			x.wait(s, &shown, step)
			w.pass(step.For)
			w.take(nil)
			return 0
		}
		require.True(w.t, waits, "%v\nthe exploration: %#v\nthe true record: %#v", w.labels, want, got)
	}
	if step, ok := want.(Wait); ok {
		x.wait(s, &shown, step)
		if len(x.out) == 0 && s.Plugs[0].Pending+s.Plugs[1].Pending > 0 {
			x.process(s) // first the command has to land, or be lost
		}
		w.pass(step.For)
		w.take(nil)
		return 0
	}
	x.controller(s)
	for len(x.out) > 0 && x.out[0].label == "the controller hears of what an admin wrote" {
		x.out, x.deeds = x.out[1:], x.deeds[1:]
	}
	w.take(got)
	return 1
}

// take takes one of the edges, where the true controller has decided on a step.
func (w *walk) take(got Step) {
	x := w.x
	if len(x.out) == 0 {
		return
	}
	i := w.random.IntN(len(x.out))
	e, d := x.out[i], x.deeds[i]
	require.Empty(w.t, e.bad, w.labels)
	w.labels = append(w.labels, e.label)
	if d.step != nil {
		step := d.step
		if write, ok := step.(Write); got != nil && (!ok || write.Reason != "") { // and not a conflict
			step = got
		}
		d.outcome.Began, d.outcome.Ended = w.now, w.now
		if d.outcome.Node.Renewal == "1" {
			w.renewals++
		}
		d.outcome.Node.Renewal = strconv.Itoa(w.renewals)
		w.memory = w.memory.After(&w.status, step, d.outcome)
		if d.wrote {
			w.status = step.(Write).Status
		}
	}
	switch {
	case e.label == "the process stands still for a minute":
		w.pass(time.Minute)
	case !w.s.Up && e.s.Up:
		w.memory, w.dump = NewMemory(w.now), clock.Reading{}
	case e.label == labelHeard:
		w.pass(time.Millisecond)
		w.dump = w.now
	}
	w.s = e.s
	w.compare()
}

// compare finds that the state stands for the record.
func (w *walk) compare() {
	if w.status.Phase == "" {
		return
	}
	s := w.s
	s.record(&w.status)
	s.Wait = w.s.Wait
	require.Equal(w.t, w.s, s, w.labels)
}

// same says that two decisions are the same, but for times.
func (w *walk) same(want, got Step) bool {
	a, ok := want.(Write)
	if !ok {
		switch want := want.(type) {
		case Call:
			got, ok := got.(Call)
			return ok && got.Device == want.Device && got.Op.Action == want.Op.Action
		case Release:
			got, ok := got.(Release)
			return ok && got.Part == want.Part
		case Wait:
			_, ok := got.(Wait)
			return ok
		}
		return reflect.DeepEqual(want, got)
	}
	b, ok := got.(Write)
	if !ok || a.Reason != b.Reason {
		return false
	}
	of := func(status *v1alpha1.Status) State {
		s := w.s
		s.record(status)
		s.Wait = 0
		return s
	}
	return of(&a.Status) == of(&b.Status)
}
