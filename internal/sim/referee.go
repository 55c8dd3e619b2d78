package sim

import (
	"fmt"
	"sync"
	"time"
)

// referee detects two processes that work on the same key.
type referee struct {
	start time.Time

	mu        sync.Mutex
	working   map[string]map[*Process]int // by what they work on: how many times each has begun
	rule      Rule
	begun     int
	excused   map[string]int
	known     map[overlap]bool // that have been excused, and counted
	violation string           // the first
	at        time.Duration    // when that was
	violated  chan struct{}    // closed with the first violation
}

// overlap is one that has an excuse, from either side.
type overlap struct{ p, other, excuse string }

// Rule judges p, which begins to work or acts while other also works. It returns a violation, or
// why the overlap is excused, or neither. It is first called with other nil, about p alone. It must
// not use the server.
type Rule func(p, other *Process) (violation, excuse string)

// alone is the rule that a process works only while no other does.
func alone(_, other *Process) (violation, excuse string) {
	if other == nil {
		return "", ""
	}
	return "overlap", ""
}

func newReferee() *referee {
	return &referee{
		start: time.Now(), working: map[string]map[*Process]int{}, rule: alone, excused: map[string]int{},
		known: map[overlap]bool{}, violated: make(chan struct{}),
	}
}

// Begin reports that the process works on key alone from now on.
func (p *Process) Begin(key string) { p.world.referee.note(p, key, "begins to work on", 1) }

// Act reports that the process does something to key that only a process that works on it may do.
func (p *Process) Act(key string) { p.world.referee.note(p, key, "acts on", 0) }

// End reports that the process has stopped what Begin began.
func (p *Process) End(key string) { p.world.referee.note(p, key, "", -1) }

// Fail reports a violation that the process itself has detected.
func (p *Process) Fail(format string, args ...any) {
	if r := p.world.referee; p.acting() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fail(p.Name + " " + fmt.Sprintf(format, args...))
	}
}

func (r *referee) note(p *Process, key, deed string, change int) {
	if !p.Alive() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.working[key] == nil {
		r.working[key] = map[*Process]int{}
	}
	r.working[key][p] += change
	if change > 0 {
		r.begun++
	}
	if deed == "" || !p.acting() {
		return
	}
	if violation, _ := r.rule(p, nil); violation != "" {
		r.fail(fmt.Sprintf("%s %s %s: %s", p.Name, deed, key, violation))
	}
	for other, n := range r.working[key] {
		if other == p || n == 0 || !other.working() {
			continue
		}
		violation, excuse := r.rule(p, other)
		switch {
		case violation != "":
			r.fail(fmt.Sprintf("%s %s %s while %s works on it: %s", p.Name, deed, key, other.Name, violation))
		case excuse != "":
			r.excuse(p, other, excuse)
		}
	}
}

// excuse counts an overlap once, however often either side acts. The caller holds mu.
func (r *referee) excuse(p, other *Process, excuse string) {
	o := overlap{p.Name, other.Name, excuse}
	if !r.known[o] {
		r.known[o], r.known[overlap{o.other, o.p, excuse}] = true, true
		r.excused[excuse]++
	}
}

// fail notes the first violation. The caller holds mu.
func (r *referee) fail(what string) {
	if r.violation == "" {
		r.at = time.Since(r.start)
		r.violation = fmt.Sprintf("%v: %s", r.at, what)
		close(r.violated)
	}
}

// works reports whether a process works on anything.
func (r *referee) works(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, working := range r.working {
		if working[p] > 0 {
			return true
		}
	}
	return false
}

// beginnings returns how often a process has begun to work.
func (r *referee) beginnings() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// workers are the living processes that work on key.
func (r *referee) workers(key string) []*Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	var workers []*Process
	for p, n := range r.working[key] {
		if n > 0 && p.Alive() {
			workers = append(workers, p)
		}
	}
	return workers
}
