package ring_test

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// model is the placement as the package documentation describes it, written down as simply as can
// be: all tokens in one sorted list, and a walk along it.
type model struct {
	tokens  []modelToken
	members int
}

type modelToken struct {
	position uint64
	member   string
}

func newModel(members []string, tokens int, weights map[string]int) model {
	var m model
	met := map[string]bool{}
	for _, name := range members {
		if met[name] {
			continue
		}
		met[name] = true
		count := tokens
		if w, ok := weights[name]; ok {
			count *= w
		}
		x := xxhash.Sum64String(name)
		for range count {
			x += 0x9e3779b97f4a7c15
			z := x
			z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
			z = (z ^ (z >> 27)) * 0x94d049bb133111eb
			z ^= z >> 31
			m.tokens = append(m.tokens, modelToken{z >> 16, name})
		}
	}
	m.members = len(met)
	slices.SortFunc(m.tokens, func(a, b modelToken) int {
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.member, b.member))
	})
	return m
}

// owners returns up to n different members from the first token at or after the position of hash.
func (m model) owners(hash uint64, n int) []string {
	start := 0
	for i, t := range m.tokens {
		if t.position >= hash>>16 {
			start = i
			break
		}
	}
	var owners []string
	for i := range m.tokens {
		member := m.tokens[(start+i)%len(m.tokens)].member
		if len(owners) == n {
			break
		}
		if !slices.Contains(owners, member) {
			owners = append(owners, member)
		}
	}
	return owners
}
