package sharder

import (
	"errors"
	"slices"
	"time"

	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

const (
	// longAfter is how long the work on an object keeps its place from others.
	longAfter = 250 * time.Millisecond
	// longPerPlace is how many turns that take long there may be for each place.
	longPerPlace = 4
	// hangsFor is how long requests count as hanging after one of too many has failed.
	hangsFor = time.Minute
)

// errGivenUp ends the context of a turn.
var errGivenUp = errors.New("given up, because many requests get no answer")

// turns bounds how many objects are worked on at a time. A turn that takes long leaves its place to
// others, but when too many do, they occupy places after all. If one of them then fails, the oldest
// are given up for a minute, so that others need not wait until they fail. If one succeeds,
// requests are only slow, and none is given up. The mutex of the queue guards all fields.
type turns struct {
	places int
	short  int       // turns that have not taken long
	long   []*turn   // in order
	hung   time.Time // when one of too many failed last; zero once one has succeeded
}

// turn is the work of one worker on an object.
type turn struct {
	giveUp  func()
	began   time.Time
	long    bool
	givenUp bool
}

// excess is how many turns that take long occupy places.
func (t *turns) excess() int { return max(0, len(t.long)-longPerPlace*t.places) }

// free reports whether a turn may begin.
func (t *turns) free() bool { return t.short+t.excess() < t.places }

func (t *turns) begin() *turn {
	t.short++
	return &turn{began: time.Now()}
}

// prolong records that a turn takes long.
func (t *turns) prolong(one *turn) {
	one.long = true
	t.short--
	t.long = append(t.long, one)
	t.relieve()
}

// end ends a turn. hung means that it has failed, and took protocol.HangsAfter or more.
func (t *turns) end(one *turn, hung bool) {
	if !one.long {
		t.short--
		return
	}
	switch now := time.Now(); {
	case one.givenUp || now.Sub(one.began) < protocol.HangsAfter: // proves nothing
	case !hung:
		t.hung = time.Time{}
	case t.excess() > 0:
		t.hung = now
	}
	t.long = slices.DeleteFunc(t.long, func(other *turn) bool { return other == one })
	t.relieve()
}

// relieve gives up the oldest turns that occupy places, if requests hang.
func (t *turns) relieve() {
	if time.Since(t.hung) >= hangsFor {
		return
	}
	for _, one := range t.long[:t.excess()] {
		if !one.givenUp {
			one.givenUp = true
			one.giveUp()
		}
	}
}
