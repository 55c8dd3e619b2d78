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
			x := newExpiry()
			x.keys, x.endpoints, x.expireAfter = []string{"1"}, own, cmp.Or(e.expire, time.Minute)
			if e.before != nil {
				x.begin(holding("old", e.before), nil, false, at(0)).finish()
			}
			incarnation := "old"
			if e.lost {
				incarnation = "new"
			}
			got, ok := x.begin(holding(incarnation, e.now), e.published, e.leaving, at(e.at)).wanted()
			assert.Equal(t, e.ok, ok)
			assert.Equal(t, e.want, got)
		})
	}
}

// newExpiry returns an expiry that no round is too late for.
func newExpiry() *expiry {
	return &expiry{maxInterval: 10 * time.Second, interval: time.Hour, expireAfter: time.Minute}
}

func TestWhatHasExpired(t *testing.T) {
	x := newExpiry()
	s := holding("s", map[int]string{1: "a", 2: "b", 3: "c"})
	malformed := s.entries["3"]
	malformed.problem = errors.New("malformed")
	s.entries["3"] = malformed
	// round returns what has expired in a round that reads s.
	round := func(seconds int, expireAfter time.Duration) []string {
		x.expireAfter = expireAfter
		v := x.begin(s, nil, false, at(seconds))
		v.finish()
		return v.expired()
	}
	assert.Empty(t, round(0, time.Minute))
	assert.Empty(t, round(59, time.Minute))
	s.entries["2"] = entry{endpoints: []Endpoint{numbered(2)}, mark: "later"}
	assert.Equal(t, []string{"1"}, round(60, time.Minute), "neither who was refreshed, nor what is malformed")
	assert.Equal(t, []string{"1"}, round(89, 5*time.Second), "2 is waited for three of its intervals")
	assert.Equal(t, []string{"1", "2"}, round(90, 5*time.Second))

	x.interval = 10 * time.Second
	assert.Equal(t, []string{"1", "2"}, round(110, time.Minute/2), "it was not away for longer than that")
	assert.Empty(t, round(131, time.Minute/2), "all waiting begins again")
}

func TestMemoryDoesNotGrow(t *testing.T) {
	x := newExpiry()
	for n := range 200 {
		v := x.begin(holding("s", map[int]string{n: "a"}), []Endpoint{numbered(n)}, false, at(n))
		v.wanted()
		v.finish()
	}
	assert.Len(t, x.known, 1)
	assert.Len(t, x.observations, 1)
}

// An empty mark must not be mistaken for a missing entry.
func TestEmptyEntryIsAsOldAsItIs(t *testing.T) {
	x := newExpiry()
	s := holding("s", map[int]string{1: ""})
	x.begin(s, nil, false, at(100)).finish()
	v := x.begin(s, nil, false, at(110))
	assert.Equal(t, 10*time.Second, v.status("1", s.entries["1"], at(110)).Unchanged)
}
