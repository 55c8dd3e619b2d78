package ring_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/bellwether-k8s/bellwether/ring"
)

// BenchmarkOwner compares the lookup of a key with hashing that key.
func BenchmarkOwner(b *testing.B) {
	for _, size := range benchSizes {
		r := newRing(b, names("operator-", size.members), ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			t := medians(b, len(benchKeys()), ownAll(r), hashAll)
			b.ReportMetric(t[0]/t[1], "x-xxhash")
		})
	}
}

// BenchmarkOwnerBesidePeer compares it with a lookup in the ring as usually written. The peer's
// ring is many times as large, and displaces ours from the caches when they take turns: what that
// costs ours counts here.
func BenchmarkOwnerBesidePeer(b *testing.B) {
	for _, size := range benchSizes {
		members := names("operator-", size.members)
		b.Run(size.String(), func(b *testing.B) {
			r, p := newRing(b, members, ring.WithTokens(size.tokens)), newPeer(members, size.tokens)
			t := medians(b, len(benchKeys()), ownAll(r), func() {
				sum := 0
				for _, k := range benchKeys() {
					sum += len(p.owner(k))
				}
				benchSink.Store(sum)
			})
			b.ReportMetric(t[0]/t[1], "x-peer")
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

// BenchmarkReaders looks up keys while another goroutine does the same in the same ring, and
// compares that with looking them up alone. Hashing beside another that hashes tells the machine's
// share in that: its cores have more in common than this program knows.
func BenchmarkReaders(b *testing.B) {
	for _, size := range benchSizes {
		r := newRing(b, names("operator-", size.members), ring.WithTokens(size.tokens))
		b.Run(size.String(), func(b *testing.B) {
			own := ownAll(r)
			var one, two, hashOne, hashTwo times
			for b.Loop() {
				one.add(own)
				stop := beside(own)
				two.add(own)
				stop()
				hashOne.add(hashAll)
				stop = beside(hashAll)
				hashTwo.add(hashAll)
				stop()
			}
			reportAllocations(b, len(benchKeys()), own)
			b.ReportMetric(two.median()/float64(len(benchKeys())), "ns/op")
			b.ReportMetric(two.median()/one.median(), "x-one")
			b.ReportMetric(hashTwo.median()/hashOne.median(), "xxhash-x-one")
		})
	}
}

// beside calls f again and again in another goroutine, has done so once, and returns what stops it.
func beside(f func()) (stop func()) {
	var stopped atomic.Bool
	running, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f()
		close(running)
		for !stopped.Load() {
			f()
		}
	}()
	<-running
	return func() {
		stopped.Store(true)
		<-done
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

var benchSizes = []benchSize{
	{10, 100},
	{10, ring.DefaultTokens},
	{100, 100},
	{100, ring.DefaultTokens},
	{1000, 100},
	{1000, ring.DefaultTokens},
}

// benchKeys are some 2.5 MB: lookups meet a ring that other things have displaced from the caches.
var benchKeys = sync.OnceValue(func() []string {
	keys := make([]string, 1<<13)
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

// medians calls all functions in turn and returns the median time of each in nanoseconds. Other
// load on the machine disturbs some rounds, but not the ratios. It reports time and allocations of
// the first function per operation. The function does n operations.
func medians(b *testing.B, n int, functions ...func()) []float64 {
	b.Helper()
	all := make([]times, len(functions))
	for b.Loop() {
		for i, f := range functions {
			all[i].add(f)
		}
	}
	medians := make([]float64, len(functions))
	for i := range all {
		medians[i] = all[i].median()
	}
	b.ReportMetric(medians[0]/float64(n), "ns/op")
	reportAllocations(b, n, functions[0])
	return medians
}

// reportAllocations reports those of f per operation, after the loop, which forgets what was
// reported before. What -benchmem counts would be of all that is compared.
func reportAllocations(b *testing.B, n int, f func()) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64((after.Mallocs-before.Mallocs)/uint64(n)), "allocs/op")
	b.ReportMetric(float64((after.TotalAlloc-before.TotalAlloc)/uint64(n)), "B/op")
}

type times []time.Duration

func (t *times) add(f func()) {
	f() // or it would find the caches as another function has left them
	start := time.Now()
	f()
	*t = append(*t, time.Since(start))
}

func (t *times) median() float64 {
	slices.Sort(*t)
	return float64((*t)[len(*t)/2])
}
