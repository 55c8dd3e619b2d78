package fencing

import (
	"context"
	"slices"
	"sync"
)

// turns makes calls to one device wait for each other, because many power distribution units,
// chassis and BMCs accept only one session at a time. Fences come before checks. The number of
// checks that call devices at the same time is limited.
type turns struct {
	mu      sync.Mutex
	devices map[string]*queue // those that are called
	checks  int               // that may begin besides those under way
}

// queue has the calls that wait for a device.
type queue struct {
	busy           bool
	fences, checks []chan struct{} // that wait
}

func newTurns(checks int) *turns { return &turns{devices: map[string]*queue{}, checks: checks} }

// take waits until no call to the device is under way, and returns end, which ends the turn and
// must be called once.
func (t *turns) take(ctx context.Context, device string, fence bool) (end func(), err error) {
	t.mu.Lock()
	q := t.devices[device]
	if q == nil {
		q = &queue{}
		t.devices[device] = q
	}
	waiting := &q.checks
	if fence {
		waiting = &q.fences
	}
	mine := make(chan struct{})
	*waiting = append(*waiting, mine)
	t.grant(device, q)
	t.mu.Unlock()
	end = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		q.busy = false
		t.grant(device, q)
		if fence {
			return
		}
		t.checks++
		for device, q := range t.devices { // in any order, which is fair
			t.grant(device, q)
		}
	}
	select {
	case <-mine:
		return end, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(*waiting, mine)
	if i >= 0 {
		*waiting = slices.Delete(*waiting, i, i+1)
		t.grant(device, q)
	}
	t.mu.Unlock()
	if i < 0 { // it got its turn in this moment
		end()
	}
	return nil, ctx.Err()
}

// grant gives the next call its turn.
func (t *turns) grant(device string, q *queue) {
	switch {
	case q.busy:
		return
	case len(q.fences) > 0:
		close(q.fences[0])
		q.busy, q.fences = true, q.fences[1:]
	case len(q.checks) > 0 && t.checks > 0:
		t.checks--
		close(q.checks[0])
		q.busy, q.checks = true, q.checks[1:]
	case len(q.checks) == 0:
		delete(t.devices, device)
	}
}
