package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// exclusion is the referee of the replicas' journals: no two processes may work on one family, an
// object and its children, at the same time. Times are of the machine's clock, which all processes
// share. It is not safe for concurrent use.
type exclusion struct {
	families map[types.UID][]*piece
	open     map[pieceID]*piece
	breached func(family types.UID, what string)
	begun    int
}

// pieceID names a piece of work.
type pieceID struct {
	process string
	number  int64
}

// piece is one piece of work.
type piece struct {
	process    string
	family     types.UID
	begin, end time.Duration
	ended      bool
}

func newExclusion(breached func(types.UID, string)) *exclusion {
	return &exclusion{families: map[types.UID][]*piece{}, open: map[pieceID]*piece{}, breached: breached}
}

func (x *exclusion) begin(id pieceID, family types.UID, at time.Duration) {
	p := &piece{process: id.process, family: family, begin: at}
	x.begun++
	x.open[id] = p
	x.families[family] = append(x.families[family], p)
}

// end ends a piece of work, and judges it against all ended pieces. So each pair is judged when its
// later piece ends.
func (x *exclusion) end(id pieceID, at time.Duration) {
	p := x.open[id]
	if p == nil {
		return
	}
	delete(x.open, id)
	p.end, p.ended = at, true
	for _, q := range x.families[p.family] {
		if q.process != p.process && q.ended && p.begin < q.end && q.begin < p.end {
			x.breached(p.family, fmt.Sprintf("two processes at work: %v, %v", q, p))
		}
	}
}

// died ends whatever a process was at when it ended.
func (x *exclusion) died(process string, at time.Duration) {
	for id, p := range x.open {
		if id.process == process {
			x.end(id, max(at, p.begin))
		}
	}
}

// forget drops the pieces that ended before a time, unless work on the family still goes on. All
// journals have been read up to that time.
func (x *exclusion) forget(before time.Duration) {
	for family, pieces := range x.families {
		if slices.ContainsFunc(pieces, func(p *piece) bool { return !p.ended }) {
			continue
		}
		if pieces = slices.DeleteFunc(pieces, func(p *piece) bool { return p.end < before }); len(pieces) > 0 {
			x.families[family] = pieces
		} else {
			delete(x.families, family)
		}
	}
}

func (p *piece) String() string {
	if !p.ended {
		return fmt.Sprintf("%s from %v on", p.process, p.begin)
	}
	return fmt.Sprintf("%s from %v to %v", p.process, p.begin, p.end)
}

func TestExclusion(t *testing.T) {
	t.Parallel()
	const s = time.Second
	a1, a2, b1 := pieceID{"a#1", 1}, pieceID{"a#1", 2}, pieceID{"b#1", 1}
	for name, test := range map[string]struct {
		play     func(*exclusion)
		breaches int
	}{
		"one after another": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(a2, "f", 1*s)
			x.end(a1, 2*s)
			x.end(a2, 2*s)
			x.begin(b1, "f", 2*s)
			x.end(b1, 3*s)
		}, 0},
		"two families": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(b1, "g", 0)
			x.end(a1, 1*s)
			x.end(b1, 1*s)
		}, 0},
		"at once": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(b1, "f", 1*s)
			x.end(b1, 2*s)
			x.end(a1, 2*s)
		}, 1},
		"at once, read one after another": {func(x *exclusion) {
			x.begin(b1, "f", 1*s)
			x.end(b1, 2*s)
			x.begin(a1, "f", 0)
			x.end(a1, 3*s)
		}, 1},
		"dead before": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(b1, "f", 2*s)
			x.end(b1, 3*s)
			x.died("a#1", 1*s)
		}, 0},
		"dead after": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(b1, "f", 1*s)
			x.end(b1, 3*s)
			x.died("a#1", 2*s)
		}, 1},
		"nothing is forgotten while work goes on": {func(x *exclusion) {
			x.begin(a1, "f", 0)
			x.begin(b1, "f", 1*s)
			x.end(b1, 2*s)
			x.forget(100 * s)
			x.end(a1, 101*s)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			breaches := 0
			x := newExclusion(func(types.UID, string) { breaches++ })
			test.play(x)
			assert.Equal(t, test.breaches, breaches)
			x.forget(1000 * s)
			assert.Empty(t, x.families)
		})
	}
}
