package ring_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/bellwether-k8s/bellwether/ring"
)

// BenchmarkOwner compares the lookup of a key with hashing that key, and with a lookup in the peer's ring.
func BenchmarkOwner(b *testing.B) {
	for _, size := range benchSizes {
		members := names("operator-", size.members)
		r, p := newRing(b, members, ring.WithTokens(size.tokens)), newPeer(members, size.tokens)
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, len(benchKeys()), ownAll(r), hashAll, func() {
				sum := 0
				for _, k := range benchKeys() {
					sum += len(p.owner(k))
				}
				benchSink.Store(sum)
			})
			b.ReportMetric(t[0]/t[1], "x-xxhash")
			b.ReportMetric(t[0]/t[2], "x-peer")
		})
	}
}

// BenchmarkOwnerBytes looks up keys that are in buffers.
func BenchmarkOwnerBytes(b *testing.B) {
	keys := make([][]byte, len(benchKeys()))
	for i, k := range benchKeys() {
		keys[i] = []byte(k)
	}
	for _, size := range benchSizes {
		r := newRing(b, names("operator-", size.members), ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, len(keys), func() {
				sum := 0
				for _, k := range keys {
					owner, _ := r.OwnerBytes(k)
					sum += len(owner)
				}
				benchSink.Store(sum)
			}, func() {
				sum := uint64(0)
				for _, k := range keys {
					sum += xxhash.Sum64(k)
				}
				benchSink.Store(int(sum))
			})
			b.ReportMetric(t[0]/t[1], "x-xxhash")
		})
	}
}

// BenchmarkOwners looks up three different members.
func BenchmarkOwners(b *testing.B) {
	for _, size := range benchSizes {
		r := newRing(b, names("operator-", size.members), ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, len(benchKeys()), func() {
				sum := 0
				var room [3]string
				for _, k := range benchKeys() {
					sum += len(r.Owners(room[:0], k, 3))
				}
				benchSink.Store(sum)
			}, hashAll)
			b.ReportMetric(t[0]/t[1], "x-xxhash")
		})
	}
}

// BenchmarkReaders has two goroutines use one ring, each as much as one alone would. What two that only hash take longer
// than one is the machine's share.
func BenchmarkReaders(b *testing.B) {
	const passes = 8 // so that starting goroutines does not count
	repeat := func(f func()) func() {
		return func() {
			for range passes {
				f()
			}
		}
	}
	two := func(f func()) func() {
		return func() {
			var all sync.WaitGroup
			all.Go(f)
			all.Go(f)
			all.Wait()
		}
	}
	for _, size := range benchSizes {
		r := newRing(b, names("operator-", size.members), ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			own, hash := repeat(ownAll(r)), repeat(hashAll)
			t := medians(b, passes*len(benchKeys()), two(own), own, two(hash), hash)
			b.ReportMetric(t[0]/t[1], "x-one")
			b.ReportMetric(t[2]/t[3], "xxhash-x-one")
		})
	}
}

// BenchmarkNew builds rings.
func BenchmarkNew(b *testing.B) {
	for _, size := range benchSizes {
		members := names("operator-", size.members)
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, 1, func() {
				if _, err := ring.New(members, ring.WithTokens(size.tokens)); err != nil {
					b.Error(err)
				}
			}, func() { benchSink.Store(len(newPeer(members, size.tokens).hashes)) })
			b.ReportMetric(t[0]/t[1], "x-peer")
		})
	}
}

// BenchmarkMoves compares a ring with that of one more member, and that with building the ring.
func BenchmarkMoves(b *testing.B) {
	for _, size := range benchSizes {
		members := names("operator-", size.members+1)
		before := newRing(b, members[1:], ring.WithTokens(size.tokens))
		after := newRing(b, members, ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, 1, func() { benchSink.Store(len(ring.Moves(before, after))) }, func() {
				if _, err := ring.New(members, ring.WithTokens(size.tokens)); err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(t[0]/t[1], "x-New")
		})
	}
}

// BenchmarkNewBounded is per key.
func BenchmarkNewBounded(b *testing.B) {
	r := newRing(b, names("operator-", 100))
	t := medians(b, len(benchKeys()), func() {
		if _, err := ring.NewBounded(r, benchKeys(), 0.05); err != nil {
			b.Error(err)
		}
	}, hashAll)
	b.ReportMetric(t[0]/t[1], "x-xxhash")
}

type benchSize struct{ members, tokens int }

func (s benchSize) String() string { return fmt.Sprintf("%dx%d", s.members, s.tokens) }

var benchSizes = []benchSize{{10, 100}, {100, 100}, {100, ring.DefaultTokens}, {1000, 100}, {1000, ring.DefaultTokens}}

// benchKeys are some 2.5 MB: lookups meet a ring that other things have displaced from the caches.
var benchKeys = sync.OnceValue(func() []string {
	keys := make([]string, 1<<15)
	for i := range keys {
		keys[i] = key(i)
	}
	return keys
})

var benchSink sink

// sink keeps results in use, or the compiler could leave out what makes them.
type sink struct {
	mu   sync.Mutex
	last int
}

// Store is for any goroutine.
func (s *sink) Store(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = n
}

func ownAll(r *ring.Ring) func() {
	return func() {
		sum := 0
		for _, k := range benchKeys() {
			owner, _ := r.Owner(k)
			sum += len(owner)
		}
		benchSink.Store(sum)
	}
}

func hashAll() {
	sum := uint64(0)
	for _, k := range benchKeys() {
		sum += xxhash.Sum64String(k)
	}
	benchSink.Store(int(sum))
}

// medians calls all functions by turns, so that they see the same machine, and returns the median time of each in
// nanoseconds: what else runs on the machine disturbs some rounds, not the ratios. It reports time and allocations of the first, which
// does n operations.
func medians(b *testing.B, n int, functions ...func()) []float64 {
	b.Helper()
	var before, after runtime.MemStats
	functions[0]() // for the first time, which may differ
	runtime.ReadMemStats(&before)
	functions[0]()
	runtime.ReadMemStats(&after)

	times := make([][]time.Duration, len(functions))
	for b.Loop() {
		for i, f := range functions {
			start := time.Now()
			f()
			times[i] = append(times[i], time.Since(start))
		}
	}
	medians := make([]float64, len(functions))
	for i := range times {
		slices.Sort(times[i])
		medians[i] = float64(times[i][len(times[i])/2])
	}
	b.ReportMetric(medians[0]/float64(n), "ns/op")
	b.ReportMetric(float64((after.Mallocs-before.Mallocs)/uint64(n)), "allocs/op")
	b.ReportMetric(float64((after.TotalAlloc-before.TotalAlloc)/uint64(n)), "B/op")
	return medians
}
