package chaos_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

// handovers measures how long no shard works on objects: from a drain, or the end of a shard, until
// another's work begins. It is not safe for concurrent use.
type handovers struct {
	under map[types.UID]departure
	took  map[cause][]time.Duration
}

// cause is why an object goes to another shard.
type cause string

const (
	drain   cause = "drain"   // it was asked to
	release cause = "release" // the shard has ended in good order
	death   cause = "death"   // the shard has ended otherwise
)

var causes = []cause{drain, release, death}

// departure is an object that leaves a shard.
type departure struct {
	cause cause
	shard string
	since time.Duration
}

func newHandovers() *handovers {
	return &handovers{under: map[types.UID]departure{}, took: map[cause][]time.Duration{}}
}

// leaves notes that an object is to leave a shard. The end of that overtakes a drain.
func (h *handovers) leaves(object types.UID, d departure) {
	if _, known := h.under[object]; !known || d.cause != drain {
		h.under[object] = d
	}
}

// stays notes that an object need not leave, or is gone.
func (h *handovers) stays(object types.UID) { delete(h.under, object) }

// begun notes that work of a shard on an object began at a time.
func (h *handovers) begun(object types.UID, shard string, at time.Duration) {
	d, ok := h.under[object]
	if !ok || at < d.since {
		return
	}
	switch {
	case d.shard != shard:
		h.took[d.cause] = append(h.took[d.cause], at-d.since)
	case d.cause == drain:
		return // it still lets go
	}
	delete(h.under, object)
}

// summary of the hand-overs of one cause.
func (h *handovers) summary(c cause) string {
	took := slices.Sorted(slices.Values(h.took[c]))
	if len(took) == 0 {
		return fmt.Sprintf("%s: none", c)
	}
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(time.Millisecond) }
	return fmt.Sprintf("%s: %d, p50 %v, p99 %v, longest %v", c, len(took), at(50), at(99), at(100))
}

func TestHandovers(t *testing.T) {
	t.Parallel()
	h := newHandovers()
	h.leaves("x", departure{drain, "a", 10})
	h.begun("x", "a", 11)
	h.begun("x", "b", 9) // read late
	h.begun("x", "b", 13)
	h.begun("x", "b", 20)
	h.leaves("y", departure{death, "a", 10})
	h.begun("y", "a", 11) // restarted
	h.begun("y", "b", 13)
	h.leaves("z", departure{drain, "a", 10})
	h.leaves("z", departure{death, "a", 12})
	h.leaves("z", departure{drain, "a", 14})
	h.begun("z", "b", 17)
	h.leaves("w", departure{drain, "a", 10})
	h.stays("w")
	h.begun("w", "b", 11)
	assert.Equal(t, map[cause][]time.Duration{drain: {3}, death: {5}}, h.took)
	assert.Empty(t, h.under)
	h.took[drain] = []time.Duration{2 * time.Second, time.Second, 3 * time.Second}
	assert.Equal(t, "drain: 3, p50 2s, p99 2s, longest 3s", h.summary(drain))
}
