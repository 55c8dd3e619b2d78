package statemachine

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// found is what an exploration has found.
type found struct {
	states, edges                    int
	final, givenUp, released, cutoff int
	violations                       map[string][]string // with the shortest trace
	liveness                         []string
}

const edgeActs = 1 << 31

// explore visits all states that can be reached, in the order of their distance, but none after a
// violation. It stops at limit states, and at the violation until.
func explore(c scenario, d naive, limit int, until string) found {
	c.naive = &d
	x := &explorer{c: &c, d: &d}
	r := found{violations: map[string][]string{}}
	// A state is known by two hashes of 64 bits: that two of a billion states share both is less
	// likely than a fault of the memory.
	seeds := [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	id := map[[2]uint64]int32{}
	texts, text := map[string]uint16{}, []string{}
	var (
		queue  []State
		parent []int32
		label  []uint16
		edges  []uint32 // those that happen also when nothing goes wrong
		from   []uint32 // where those of a state begin
		kind   []uint8
	)
	visit := func(s State, p int32, l string) int32 {
		key := [2]uint64{maphash.Comparable(seeds[0], s), maphash.Comparable(seeds[1], s)}
		if i, ok := id[key]; ok {
			return i
		}
		i := int32(len(parent))
		id[key] = i
		n, ok := texts[l]
		if !ok {
			n = uint16(len(text))
			texts[l], text = n, append(text, l)
		}
		queue, parent, label = append(queue, s), append(parent, p), append(label, n)
		return i
	}
	trace := func(i int32) []string {
		var t []string
		for ; i > 0; i = parent[i] {
			t = append([]string{text[label[i]]}, t...)
		}
		return t
	}
	visit(c.initial(), 0, "")
	for i := int32(0); int(i) < len(parent); i++ {
		if len(parent) > limit {
			r.cutoff = len(parent)
			r.states = len(parent)
			return r
		}
		s := queue[0]
		if queue = queue[1:]; len(queue) == 0 {
			queue = nil
		}
		from = append(from, uint32(len(edges)))
		k := uint8(0)
		switch {
		case s.Phase == phFinal:
			k = kindFinal
			r.final++
		case s.Phase == phGivenUp:
			k = kindGivenUp
			r.givenUp++
		case s.Pause || s.Hold:
			k = kindHeld
		}
		if k == kindFinal || k == kindGivenUp {
			if s.Released == 2 {
				r.released++
			} else if c.fault+c.flap+c.admin+c.external == 0 && len(r.liveness) < 3 {
				r.liveness = append(r.liveness, "the node is dead, its devices work, and the workloads were not "+
					"released: "+strings.Join(trace(i), "; "))
			}
		}
		kind = append(kind, k)
		for _, e := range x.successors(s) {
			r.edges++
			if e.bad != "" {
				if r.violations[e.bad] == nil {
					r.violations[e.bad] = append(trace(i), e.label)
				}
				if kind[i] = kindBroken; e.bad == until {
					r.states = len(parent)
					return r
				}
				continue
			}
			to := visit(e.s, i, e.label)
			if e.quiet && to != i {
				w := uint32(to)
				if e.acts {
					w |= edgeActs
				}
				edges = append(edges, w)
			}
		}
	}
	from = append(from, uint32(len(edges)))
	r.states = len(parent)
	r.live(edges, from, kind, trace)
	return r
}

const (
	kindFinal uint8 = 1 + iota
	kindGivenUp
	kindHeld
	kindBroken // beyond it nothing was explored
)

// live judges what happens when nothing goes wrong any more and no person acts. States that
// can reach each other form a circle: the controller looks, and waits. Nothing is written or done
// within one, and each is left, but for the ends and where an admin or the policy says so.
func (r *found) live(edges, from []uint32, kind []uint8, trace func(int32) []string) {
	const unvisited = 0
	var (
		number = make([]int32, len(kind)) // of the visit, from 1
		low    = make([]int32, len(kind))
		circle = make([]int32, len(kind)) // from 1
		open   []int32
		count  int32
		last   int32
	)
	type frame struct {
		state int32
		next  uint32
	}
	report := func(what string, state int32) {
		if len(r.liveness) < 3 {
			r.liveness = append(r.liveness, what+": "+strings.Join(trace(state), "; "))
		}
	}
	for root := range kind {
		if number[root] != unvisited {
			continue
		}
		begin := func(i int32) frame {
			count++
			number[i], low[i] = count, count
			open = append(open, i)
			return frame{i, from[i]}
		}
		stack := []frame{begin(int32(root))}
		for len(stack) > 0 {
			f := &stack[len(stack)-1]
			if f.next < from[f.state+1] {
				to := int32(edges[f.next] &^ edgeActs)
				f.next++
				if number[to] == unvisited {
					stack = append(stack, begin(to))
				} else if circle[to] == 0 {
					low[f.state] = min(low[f.state], number[to])
				}
				continue
			}
			state := f.state
			if stack = stack[:len(stack)-1]; len(stack) > 0 {
				up := stack[len(stack)-1].state
				low[up] = min(low[up], low[state])
			}
			if low[state] != number[state] {
				continue
			}
			last++
			top := len(open)
			for circle[state] == 0 {
				top--
				circle[open[top]] = last
			}
			members := open[top:]
			open = open[:top]
			left := false
			for _, i := range members {
				left = left || kind[i] != 0
				for _, e := range edges[from[i]:from[i+1]] {
					if to := int32(e &^ edgeActs); circle[to] != last {
						left = true
					} else if e&edgeActs != 0 {
						report("endless loop", i)
					}
				}
			}
			if !left {
				report("dead end", members[0])
			}
		}
	}
}

func (r *found) String() string {
	return fmt.Sprintf("%9d states, %9d edges; ends: %d final, %d given up, %d with the workloads released", r.states,
		r.edges, r.final, r.givenUp, r.released)
}
