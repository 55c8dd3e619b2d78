package ring_test

import (
	"sort"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// peer is a ring as usually written: a sorted list of hashes that is searched by halves, and a map
// from hash to member. For the benchmarks only: its tokens are hashes of name and number run
// together.
type peer struct {
	hashes  []uint64
	members map[uint64]string
}

func newPeer(members []string, tokens int) *peer {
	p := &peer{members: map[uint64]string{}}
	for _, name := range members {
		for i := range tokens {
			hash := xxhash.Sum64String(name + strconv.Itoa(i))
			p.hashes = append(p.hashes, hash)
			p.members[hash] = name
		}
	}
	sort.Slice(p.hashes, func(i, j int) bool { return p.hashes[i] < p.hashes[j] })
	return p
}

func (p *peer) owner(key string) string {
	hash := xxhash.Sum64String(key)
	i := sort.Search(len(p.hashes), func(i int) bool { return p.hashes[i] >= hash })
	if i == len(p.hashes) {
		i = 0
	}
	return p.members[p.hashes[i]]
}
