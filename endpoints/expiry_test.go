package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/internal/clock"
)

// at returns a reading of a clock with a meaningless wall time.
func at(seconds int) clock.Reading {
	return clock.Reading{Monotonic: time.Duration(seconds) * time.Second, Wall: time.Unix(int64(seconds*-977), 0)}
}

func numbered(n int) Endpoint {
	return Endpoint{netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Port{Number: 443, Protocol: corev1.ProtocolTCP}}
}

// renamed returns numbered(n) with the port name of an earlier process.
func renamed(n int) Endpoint {
	e := numbered(n)
	e.Port.Name = "earlier"
	return e
}

// holding returns a snapshot with entries of these instances and their marks.
func holding(incarnation string, marks map[int]string) snapshot {
	s := snapshot{incarnation: incarnation, entries: map[string]entry{}}
	for n, mark := range marks {
		s.entries[fmt.Sprint(n)] = entry{endpoints: []Endpoint{numbered(n)}, mark: mark}
	}
	return s
}

func TestWhatIsWanted(t *testing.T) {
	all := []Endpoint{numbered(1), numbered(2), numbered(3)}
	own := all[:1]
	for _, e := range []struct {
		name      string
		before    map[int]string // what the store held 10 s before; nil: this instance has just started
		now       map[int]string
		lost      bool // the store was deleted and created again
		published []Endpoint
		leaving   bool
		expire    time.Duration // default: 1 min
		at        int
		want      []Endpoint
		ok        bool
	}{
		{name: "the store's", now: map[int]string{1: "a", 2: "b"}, at: 10, want: all[:2], ok: true},
		{
			name: "one that somebody has removed", before: map[int]string{1: "a", 2: "b"}, now: map[int]string{1: "a"},
			published: all[:2], at: 10, want: all[:1], ok: true,
		},
		{
			name: "one that was never seen in the store", now: map[int]string{1: "a"}, published: all[:2], at: 10,
			want: all[:2], ok: true,
		},
		{
			name: "the same after long enough", before: map[int]string{1: "a"}, now: map[int]string{1: "a"},
			published: all[:2], at: 60, want: all[:1], ok: true,
		},
		{
			name: "but not before", before: map[int]string{1: "a"}, now: map[int]string{1: "a"}, published: all[:2],
			at: 59, want: all[:2], ok: true,
		},
		{
			name: "nor before three intervals", before: map[int]string{1: "a"}, now: map[int]string{1: "a"},
			published: all[:2], expire: 5 * time.Second, at: 29, want: all[:2], ok: true,
		},
		{
			name: "an own port under an earlier name", now: map[int]string{1: "a"}, published: []Endpoint{renamed(1)},
			at: 10, want: all[:1], ok: true,
		},
		{
			name: "the store was lost", before: map[int]string{1: "a", 2: "b"}, now: map[int]string{1: "a"}, lost: true,
			published: all[:2], at: 10, want: all[:2], ok: true,
		},
		{
			name: "its own entry was lost", before: map[int]string{1: "a", 2: "b"}, now: map[int]string{},
			published: all[:2], at: 10, want: all[1:2], ok: true,
		},
		{name: "never nothing", before: map[int]string{1: "a"}, now: map[int]string{}, published: all[:1], at: 10},
		{
			name: "but by leaving", before: map[int]string{1: "a"}, now: map[int]string{}, published: all[:1],
			leaving: true, at: 10, ok: true,
		},
		{
			name: "not oneself when leaving", now: map[int]string{}, published: all[:2], leaving: true, at: 10,
			want: all[1:2], ok: true,
		},
	} {
		t.Run(e.name, func(t *testing.T) {
			x := expiry{interval: 10 * time.Second}
			if e.before != nil {
				x.observe(holding("old", e.before), []string{"1"}, at(0))
			}
			incarnation := "old"
			if e.lost {
				incarnation = "new"
			}
			s := holding(incarnation, e.now)
			x.observe(s, []string{"1"}, at(e.at))
			got, ok := x.wanted(s, e.published, own, e.leaving, cmp.Or(e.expire, time.Minute), at(e.at))
			assert.Equal(t, e.ok, ok)
			assert.Equal(t, e.want, got)
		})
	}
}

func TestWhatHasExpired(t *testing.T) {
	x := expiry{interval: 10 * time.Second, canJudge: true}
	s := holding("s", map[int]string{1: "a", 2: "b", 3: "c"})
	malformed := s.entries["3"]
	malformed.problem = errors.New("malformed")
	s.entries["3"] = malformed
	x.observe(s, nil, at(0))
	x.observe(s, nil, at(59))
	assert.Empty(t, x.expired(s, time.Minute, at(59)))
	s.entries["2"] = entry{endpoints: []Endpoint{numbered(2)}, mark: "later"}
	x.observe(s, nil, at(60))
	assert.Equal(t, []string{"1"}, x.expired(s, time.Minute, at(60)),
		"neither who was refreshed, nor what is malformed")
	assert.Empty(t, x.expired(s, 5*time.Second, at(89))[1:], "2 is waited for three of its intervals")
	assert.Equal(t, []string{"1", "2"}, x.expired(s, 5*time.Second, at(90)))

	x.finishRound(at(60), true)
	x.startRound(at(80), 20*time.Second)
	assert.Equal(t, 80*time.Second, x.age("1", at(80)), "it was not away for longer than that")
	x.startRound(at(81), 20*time.Second)
	assert.Zero(t, x.age("1", at(81)))
}

func TestMemoryDoesNotGrow(t *testing.T) {
	x := expiry{interval: 10 * time.Second}
	for n := range 200 {
		s := holding("s", map[int]string{n: "a"})
		x.observe(s, nil, at(n))
		x.forget(s, []Endpoint{numbered(n)})
	}
	assert.Len(t, x.known, 1)
	assert.Len(t, x.observations, 1)
}

// An empty mark must not be mistaken for a missing entry.
func TestEmptyEntryIsAsOldAsItIs(t *testing.T) {
	x := expiry{interval: 10 * time.Second}
	s := holding("s", map[int]string{1: ""})
	x.observe(s, nil, at(100))
	x.observe(s, nil, at(110))
	assert.Equal(t, 10*time.Second, x.age("1", at(110)))
}
