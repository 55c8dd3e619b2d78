package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
	"github.com/bellwether-k8s/bellwether/internal/proof"
)

// ReplayVariable names the environment variable with the file of a schedule for [Prove] to run
// instead of its own.
const ReplayVariable = "BELLWETHER_SIM_REPLAY"

// Count sums up what [Explore] has done.
type Count struct {
	Schedules, Begun, Requests int
	Took                       time.Duration
	Excused                    map[string]int // overlaps, by excuse
}

// String returns one line.
func (c Count) String() string {
	line := fmt.Sprintf("%d schedules in %v (%.0f per minute), %d terms of work, %d requests",
		c.Schedules, c.Took.Round(time.Millisecond), float64(c.Schedules)/c.Took.Minutes(), c.Begun, c.Requests)
	for _, excuse := range slices.Sorted(maps.Keys(c.Excused)) {
		line += fmt.Sprintf("; %d overlaps excused: %s", c.Excused[excuse], excuse)
	}
	return line
}

// Prove runs schedules and fails the test with a report of the first violation. With
// [ReplayVariable] it runs that one alone.
func Prove(t *testing.T, s Scenario, b Budget) {
	t.Helper()
	if file := os.Getenv(ReplayVariable); file != "" {
		r, err := Replay(t, s, file)
		if err != nil {
			t.Fatal(err)
		}
		if r.Violation != "" {
			t.Error(r.Violation)
		}
		return
	}
	count, violation := Explore(t, s, b)
	if proof.Soaking() {
		fmt.Printf("soak: %s: %s\n", t.Name(), count) // a log would be shown only on failure
	}
	t.Log(count)
	if violation != nil {
		t.Error(violation.Report())
	}
}

// spacious is how much garbage may exist beside what a schedule needs, in percent. A schedule needs
// only a few MiB, and with the default the garbage collector takes a fifth of the time.
const spacious = 400

// Explore runs schedules, several at a time, and stops at the first violation, which it returns.
func Explore(t *testing.T, s Scenario, b Budget) (Count, *Result) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(spacious))
	var (
		begin      = time.Now()
		next       atomic.Uint64
		mu         sync.Mutex
		count      = Count{Excused: map[string]int{}}
		violation  *Result
		unfinished = func() bool {
			mu.Lock()
			defer mu.Unlock()
			return violation == nil && b.more(count.Schedules)
		}
	)
	next.Store(b.seed)
	t.Run("schedules", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for unfinished() {
					r := Run(t, s, next.Add(1)-1, nil)
					mu.Lock()
					count.Schedules++
					count.Begun += r.Begun
					count.Requests += len(r.Trace)
					for excuse, n := range r.Excused {
						count.Excused[excuse] += n
					}
					if r.Violation != "" && violation == nil {
						violation = &r
					}
					mu.Unlock()
				}
			})
		}
	})
	count.Took = time.Since(begin)
	return count, violation
}

// recorded is a schedule in a file.
type recorded struct {
	Seed  uint64
	Trace []apisim.Served
}

// Report describes a violation for a reader, with the plan and the requests up to then. It also
// writes a file for [Replay] and names it.
func (r Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s\n\nwhat went wrong:\n%s\nrequests:\n", r.Seed, r.Violation, r.Plan.until(r.At))
	for _, request := range r.Trace {
		fmt.Fprintln(&b, request)
	}
	file, err := r.Record("")
	if err != nil {
		fmt.Fprintf(&b, "\nnot recorded: %v\n", err)
	} else {
		fmt.Fprintf(&b, "\nrun it again: %s=%s\n", ReplayVariable, file)
	}
	return b.String()
}

// Record writes a file for [Replay] into a directory, or that of temporary files if empty.
func (r Result) Record(directory string) (name string, err error) {
	f, err := os.CreateTemp(directory, "bellwether-sim-*.json")
	if err != nil {
		return "", err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	return f.Name(), json.NewEncoder(f).Encode(recorded{r.Seed, r.Trace})
}

// Replay runs the schedule in a file that Report has written.
func Replay(t *testing.T, s Scenario, file string) (Result, error) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		return Result{}, err
	}
	var r recorded
	if err := json.Unmarshal(data, &r); err != nil {
		return Result{}, fmt.Errorf("%s: %w", file, err)
	}
	return Run(t, s, r.Seed, r.Trace), nil
}
