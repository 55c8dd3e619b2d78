package membership

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/bellwether-k8s/bellwether/ring"
	"github.com/bellwether-k8s/bellwether/sharder/internal/protocol"
)

// MaxBalanced is up to how many keys are balanced. Of more, those that were diverted stay where they are.
const MaxBalanced = 1000

// balance diverts keys from their owners on the ring, so that a shard has at most factor times its share of the
// objects, and at least its share divided by factor. The first is rounded up to whole objects, the second down. It
// diverts no key that need not be, and leaves what is diverted already where it is.
type balance struct {
	factor float64 // 0: nothing is diverted

	mu       sync.Mutex
	plan     *Plan          // guarded by mu: the last one; nil: there has been no plan yet
	objects  map[uint64]int // guarded by mu: by the hashes of their keys; nil: unknown, or too many
	admitted []uint64       // guarded by mu: new keys since the last count, which need not be in the next one
	due      bool           // guarded by mu: something else is to be diverted than by the plan
}

// planned takes a new plan.
func (b *balance) planned(p *Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plan = p
	b.review() // keys may have been admitted while the plan was stored
}

// count takes the number of objects of each key, or nil if there are too many.
func (b *balance) count(objects map[uint64]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, hash := range b.admitted {
		if objects != nil && objects[hash] == 0 {
			objects[hash] = 1
		}
	}
	b.objects, b.admitted = objects, nil
	b.review()
}

// review returns what is to be diverted now. The caller holds mu.
func (b *balance) review() map[uint64]string {
	if b.plan == nil {
		return nil
	}
	want := b.diverted(b.plan.ring, b.plan.weights, b.plan.diverted)
	b.due = !maps.Equal(want, b.plan.diverted)
	return want
}

// admits reports whether the target of a plan has room for a new object, which must otherwise wait for another
// plan.
func (b *balance) admits(p *Plan, hash uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.factor == 0 || b.objects == nil {
		return true
	}
	if b.objects[hash] == 0 {
		if len(b.objects) == MaxBalanced {
			b.objects = nil
			return true
		}
		b.objects[hash] = 1
		b.admitted = append(b.admitted, hash)
	}
	return b.review()[hash] == p.diverted[hash] // perhaps another object has to go
}

// isDue reports whether something else is to be diverted than by the last plan.
func (b *balance) isDue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.due
}

// of returns what is to be diverted under a membership, of what was diverted before.
func (b *balance) of(m protocol.Membership, before map[uint64]string) (map[uint64]string, error) {
	if b.factor == 0 {
		return nil, nil
	}
	weights := greatestWeights(m)
	r, err := RingOf(weights)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.diverted(r, weights, before), nil
}

// diverted is of on this ring. The caller holds mu.
func (b *balance) diverted(r *ring.Ring, weights map[string]int, before map[uint64]string) map[uint64]string {
	if b.factor == 0 {
		return nil
	}
	after := maps.Clone(before)
	maps.DeleteFunc(after, func(_ uint64, shard string) bool { return weights[shard] == 0 }) // no member any more
	if b.objects == nil {
		return after
	}
	s := newScales(r, weights, b.objects, after, b.factor)
	s.lower()
	s.raise()
	after = map[uint64]string{}
	for _, k := range s.keys {
		if k.shard != k.owner {
			after[k.hash] = k.shard
		}
	}
	return after
}

// encodeDiverted returns the stored form: for each shard, the hashes that it has; empty if nothing is diverted.
func encodeDiverted(diverted map[uint64]string) string {
	if len(diverted) == 0 {
		return ""
	}
	hashes := map[string][]string{}
	for _, hash := range slices.Sorted(maps.Keys(diverted)) {
		hashes[diverted[hash]] = append(hashes[diverted[hash]], strconv.FormatUint(hash, 16))
	}
	raw, err := json.Marshal(hashes)
	if err != nil { // impossible for this type
		panic(fmt.Sprintf("sharder: encode what is diverted: %v", err))
	}
	return string(raw)
}

// parseDiverted reads what encodeDiverted has written; without it, nothing is diverted.
func parseDiverted(value string) (map[uint64]string, error) {
	var hashes map[string][]string
	if err := json.Unmarshal([]byte(cmp.Or(value, "{}")), &hashes); err != nil {
		return nil, fmt.Errorf("what is diverted: %w", err)
	}
	diverted := map[uint64]string{}
	for shard, all := range hashes {
		for _, text := range all {
			hash, err := strconv.ParseUint(text, 16, 64)
			if err != nil {
				return nil, fmt.Errorf("what is diverted: %w", err)
			}
			diverted[hash] = shard
		}
	}
	return diverted, nil
}

// scales are the state of a balancing.
type scales struct {
	ring   *ring.Ring
	all    []*scale // by name
	shards map[string]*scale
	keys   []*weighed // by their hashes
}

// scale is what one shard has, and may have.
type scale struct {
	name            string
	has             int
	share           float64
	atLeast, atMost int
}

// weighed is a key with its objects.
type weighed struct {
	hash    uint64
	objects int
	owner   string // on the ring
	shard   string // where it is
}

func newScales(r *ring.Ring, weights map[string]int, objects map[uint64]int, diverted map[uint64]string,
	factor float64,
) *scales {
	s := &scales{ring: r, shards: map[string]*scale{}}
	all, total := 0, 0
	for _, n := range objects {
		all += n
	}
	for _, weight := range weights {
		total += weight
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		share := float64(all*weights[name]) / float64(total)
		c := &scale{
			name: name, share: share, atLeast: int(share / factor),
			atMost: int(max(math.Ceil(share), math.Floor(share*factor))),
		}
		s.all, s.shards[name] = append(s.all, c), c
	}
	for _, hash := range slices.Sorted(maps.Keys(objects)) {
		owner, _ := r.OwnerHash(hash)
		k := &weighed{hash, objects[hash], owner, cmp.Or(diverted[hash], owner)}
		s.keys = append(s.keys, k)
		s.shards[k.shard].has += k.objects
	}
	return s
}

// lower moves keys away from shards that have too much, each to the next of its owners that has room. Those that
// are diverted already go first, and then those with the greatest hashes.
func (s *scales) lower() {
	for _, diverted := range []bool{true, false} {
		for _, k := range slices.Backward(s.keys) {
			from := s.shards[k.shard]
			if from.has <= from.atMost || (k.shard != k.owner) != diverted {
				continue
			}
			for _, name := range s.ring.OwnersHash(nil, k.hash, len(s.shards)) {
				if to := s.shards[name]; to.has+k.objects <= to.atMost {
					s.move(k, to)
					break
				}
			}
		}
	}
}

// raise moves keys to shards that have too little, from those that have most of their share. Those that the ring
// gives to the shard go first, and then those with the greatest hashes.
func (s *scales) raise() {
	for {
		to := slices.MinFunc(s.all, func(a, b *scale) int { return cmp.Compare(a.has-a.atLeast, b.has-b.atLeast) })
		if to.has >= to.atLeast {
			return
		}
		var spare []*weighed
		for _, k := range s.keys {
			from := s.shards[k.shard]
			if from != to && from.has-k.objects >= from.atLeast && to.has+k.objects <= to.atMost {
				spare = append(spare, k)
			}
		}
		if len(spare) == 0 { // keys have too many objects
			return
		}
		home := map[string]int{to.name: 1}
		s.move(slices.MaxFunc(spare, func(a, b *weighed) int {
			return cmp.Or(
				cmp.Compare(s.shards[a.shard].load(), s.shards[b.shard].load()),
				cmp.Compare(home[a.owner], home[b.owner]), cmp.Compare(a.hash, b.hash),
			)
		}), to)
	}
}

// load is how much of its share a shard has.
func (s *scale) load() float64 { return float64(s.has) / s.share }

func (s *scales) move(k *weighed, to *scale) {
	s.shards[k.shard].has -= k.objects
	to.has += k.objects
	k.shard = to.name
}
