package referee

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func worked(p *Pieces, shard, object string, from, until float64) {
	p.Note(shard, fmt.Sprintf(`{"ts":%f,"msg":"work begins","object":%q}`, from, object))
	if until > 0 {
		p.Note(shard, fmt.Sprintf(`{"ts":%f,"msg":"work has ended","object":%q}`, until, object))
	}
}

func TestVerdictOnPieces(t *testing.T) {
	p := NewPieces()
	p.Note("a", `{"ts":1,"msg":"started leading"}`)
	worked(p, "a", "x", 1, 2)
	worked(p, "b", "y", 1, 2)
	worked(p, "b", "x", 2.5, 3)
	worked(p, "b", "y", 4, 0)
	p.Note("b", "not JSON")
	p.Note("b", `{"ts":9,"msg":"work has ended","object":"never begun"}`)
	p.Exited("b", time.Unix(5, 0))
	worked(p, "a", "y", 5.1, 6)
	overlap, n := p.Verdict()
	assert.Empty(t, overlap)
	assert.Equal(t, 5, n)
	assert.Equal(t, "a", p.Sharder())
}

func TestOverlapsAreFound(t *testing.T) {
	for name, overlap := range map[string]func(*Pieces){
		"at the end": func(p *Pieces) { worked(p, "b", "x", 2.9, 5) },
		"inside":     func(p *Pieces) { worked(p, "b", "x", 2, 2.1) },
		"told later": func(p *Pieces) { worked(p, "b", "x", 0.5, 1) },
		"of an early one, by a short one": func(p *Pieces) {
			worked(p, "a", "x", 10, 20)
			worked(p, "a", "z", 11, 12)
			worked(p, "b", "x", 15, 16)
		},
		"of one that was cut off": func(p *Pieces) {
			worked(p, "a", "x", 30, 0)
			p.Exited("a", time.Unix(40, 0))
			worked(p, "b", "x", 39.9, 41)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPieces()
			worked(p, "a", "x", 1, 3)
			overlap(p)
			found, _ := p.Verdict()
			assert.Contains(t, found, "worked on x until")
		})
	}
}
