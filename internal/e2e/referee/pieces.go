package referee

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Pieces is the work of the shards of examples/sharding on objects.
type Pieces struct {
	mu    sync.Mutex
	all   map[string][]*piece  // guarded by mu: by object, in the order of their news
	open  map[[2]string]*piece // guarded by mu: those that have begun, by shard and object
	count int                  // guarded by mu
	chief string               // guarded by mu: whose sharder was the last to begin
}

// piece is one stretch of work of a shard on an object.
type piece struct {
	shard      string
	start, end time.Time // end is zero until it has ended
}

// NewPieces returns an empty record.
func NewPieces() *Pieces {
	return &Pieces{all: map[string][]*piece{}, open: map[[2]string]*piece{}}
}

// Note processes a line of a shard's log.
func (p *Pieces) Note(shard, line string) {
	var entry struct {
		Message string  `json:"msg"`
		Seconds float64 `json:"ts"`
		Object  string  `json:"object"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil {
		return
	}
	at := inSeconds(entry.Seconds)
	key := [2]string{shard, entry.Object}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch entry.Message {
	case "work begins":
		begun := &piece{shard: shard, start: at}
		p.all[entry.Object] = append(p.all[entry.Object], begun)
		p.open[key] = begun
		p.count++
	case "work has ended":
		if begun := p.open[key]; begun != nil {
			begun.end = at
			delete(p.open, key)
		}
	case "started leading":
		p.chief = shard
	}
}

// Exited ends the pieces that a shard had open when its process ended.
func (p *Pieces) Exited(shard string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, begun := range p.open {
		if key[0] == shard {
			begun.end = at
			delete(p.open, key)
		}
	}
}

// Worked reports whether the last piece of work on an object is a shard's.
func (p *Pieces) Worked(shard, object string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all[object]
	return len(all) > 0 && all[len(all)-1].shard == shard
}

// Sharder is the shard that became the sharder last.
func (p *Pieces) Sharder() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.chief
}

// Verdict says whether any object was ever worked on by two shards at the same time, and out of how
// many pieces. All shards must have exited.
func (p *Pieces) Verdict() (overlap string, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for object, all := range p.all {
		slices.SortFunc(all, func(a, b *piece) int { return a.start.Compare(b.start) })
		latest := all[0] // the one to end last, of those before
		for _, next := range all[1:] {
			if !next.start.After(latest.end) {
				overlap = fmt.Sprintf("%s worked on %s until %s, %s from %s on",
					latest.shard, object, latest.end.Format(clock), next.shard, next.start.Format(clock))
			}
			if next.end.After(latest.end) {
				latest = next
			}
		}
	}
	return overlap, p.count
}
