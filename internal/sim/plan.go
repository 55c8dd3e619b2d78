package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is what will go wrong in a schedule, which follows from the seed alone.
type Plan struct {
	Replicas []Replica
	Faults   []Fault // by the time when they begin
	JSON     bool    // all clients use JSON, as for custom resources
}

// everyJSON is the number of schedules for each one in JSON, which takes half as long again.
const everyJSON = 8

// Replica has the permanent faults of one replica.
type Replica struct {
	Offset  time.Duration
	Rate    float64
	Start   time.Duration // after the beginning of the schedule
	Latency time.Duration // each way, when all is well
}

// Fault is one thing that goes wrong.
type Fault struct {
	Kind    Kind
	At      time.Duration // after the beginning of the schedule
	For     time.Duration // until it is mended
	Replica int           // which one, or Worker; without meaning for faults of the server
	Amount  time.Duration // how much, where the kind needs that
	Count   int           // how many, where the kind needs that
}

// Worker as the replica of a fault is the one that works when the fault begins.
const Worker = -1

// Kind is what goes wrong.
type Kind string

// The faults of one replica.
const (
	Pausing       Kind = "pause"              // Count is the Pause
	PausingNow    Kind = "pause at a reading" // Amount is the Pause, of the Countth reading of the clock from At
	Latency       Kind = "latency"            // Amount, each way
	WatchLag      Kind = "watch lag"          // Amount
	Partition     Kind = "partition"
	LostRequests  Kind = "lost writes"
	LostResponses Kind = "lost answers to writes"
	Refused       Kind = "refused connections"
	Throttled     Kind = "throttling"
	OddAnswers    Kind = "odd answers"        // Count is which
	ClockStep     Kind = "wall clock stepped" // by Amount
	Kill          Kind = "kill"               // started again at the end
	Terminate     Kind = "terminate"          // killed at the end; Amount is how long its work takes to stop
)

// The faults of the server.
const (
	Outage       Kind = "server outage"
	Restart      Kind = "server restart" // watches begin Count changes ago
	Compaction   Kind = "compaction"
	Interference Kind = "interference" // of the scenario, with Count for a seed
	Annotations  Kind = "annotations"  // of the scenario, at every Amount
)

var kinds = []Kind{
	Pausing, PausingNow, Latency, WatchLag, Partition, LostRequests, LostResponses, Refused, Throttled, OddAnswers,
	ClockStep, Kill,
	Terminate, Outage, Restart, Compaction, Interference, Annotations,
}

func (f Fault) ofServer() bool { return slices.Index(kinds, f.Kind) >= slices.Index(kinds, Outage) }

// newPlan draws the plan of a seed. Schedules differ in how often things go wrong and in what can, so
// that a fault that another would hide also has its chance (A. Groce et al., Swarm Testing, ISSTA 2012).
func newPlan(s Scenario, seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Replicas: make([]Replica, s.MinReplicas+r.IntN(s.MaxReplicas-s.MinReplicas+1)), JSON: seed%everyJSON == 0,
	}
	for i := range p.Replicas {
		p.Replicas[i] = Replica{
			Offset:  time.Duration(r.NormFloat64() * float64(time.Hour)),
			Rate:    1 + s.RateError*(2*r.Float64()-1),
			Start:   between(r, time.Millisecond, 3*time.Second),
			Latency: between(r, 100*time.Microsecond, 50*time.Millisecond),
		}
		if r.IntN(3) == 0 { // the worst there is
			p.Replicas[i].Rate = 1 + s.RateError*float64(2*r.IntN(2)-1)
		}
	}
	possible := slices.Clone(s.Kinds)
	if possible == nil {
		possible = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
			return k == OddAnswers && !s.Odd || k == Annotations && s.Annotate == nil
		})
	}
	r.Shuffle(len(possible), func(i, j int) { possible[i], possible[j] = possible[j], possible[i] })
	possible = possible[:1+r.IntN(min(8, len(possible)))]
	aim := r.IntN(3) > 0 // at who works: the others are well, and take over
	every := float64(between(r, 5*time.Second, 40*time.Second))
	var f Fault
	for at := time.Duration(0); at < s.Duration; at = next(r, f, every) {
		together := at < f.At+f.For // misfortunes do not come singly
		before := f.Replica
		f = Fault{
			Kind: possible[r.IntN(len(possible))], At: at, For: between(r, 300*time.Millisecond, time.Minute),
			Replica: r.IntN(len(p.Replicas)), Count: r.IntN(10),
		}
		switch {
		case together:
			f.Replica = before
		case aim:
			f.Replica = Worker
		}
		switch f.Kind {
		case Pausing:
			f.Count = r.IntN(3)
		case PausingNow:
			f.Amount, f.Count = time.Duration(r.IntN(3)), 1+r.IntN(20)
		case Latency:
			f.Amount = between(r, 300*time.Millisecond, 10*time.Second)
		case WatchLag:
			f.Amount = between(r, 100*time.Millisecond, time.Minute)
		case ClockStep:
			f.Amount = time.Duration(2*r.IntN(2)-1) * between(r, time.Second, time.Hour)
		case Terminate:
			f.Amount = between(r, time.Millisecond, 10*time.Second)
		case Annotations:
			f.Amount = between(r, 300*time.Millisecond, 15*time.Second) // longer than it takes to read and write
		case Interference:
			if s.Interfere == nil {
				continue
			}
			f.Count = r.Int()
		}
		p.Faults = append(p.Faults, f)
	}
	for i, f := range p.Faults {
		p.Faults[i].For = min(f.For, s.Duration-f.At)
	}
	if r.IntN(2) == 0 { // as in most clusters: what they write can be the same
		for i := range p.Replicas {
			p.Replicas[i].Offset = 0
		}
	}
	if slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Kind == ClockStep && f.Amount < 0 }) {
		p.thaw()
	}
	return p
}

// next is when the next fault begins, either while the last one lasts or independently of it.
func next(r *rand.Rand, f Fault, every float64) time.Duration {
	if r.IntN(2) == 0 {
		return f.At + time.Duration(r.Float64()*float64(f.For))
	}
	return f.At + time.Duration(r.ExpFloat64()*every)
}

// between draws a duration, each order of magnitude as likely as the next.
func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), r.Float64()))
}

// thaw removes freezes of virtual machines, because where wall clocks are also set back, a machine
// cannot learn how long it was frozen.
func (p *Plan) thaw() {
	for i := range p.Faults {
		switch f := &p.Faults[i]; {
		case f.Kind == Pausing && Pause(f.Count) == Freeze:
			f.Count = int(Suspend)
		case f.Kind == PausingNow && Pause(f.Amount) == Freeze:
			f.Amount = time.Duration(Suspend)
		}
	}
}

// until is the part of the plan up to a time.
func (p Plan) until(at time.Duration) Plan {
	p.Faults = slices.DeleteFunc(slices.Clone(p.Faults), func(f Fault) bool { return f.At > at })
	return p
}

// String returns the plan for a reader, with a line for each replica and each fault.
func (p Plan) String() string {
	var b strings.Builder
	for i, r := range p.Replicas {
		fmt.Fprintf(&b, "%12v %-8s starts, clock %v off at rate %.3f, latency %v\n",
			r.Start.Round(time.Millisecond), replicaName(i), r.Offset.Round(time.Second), r.Rate,
			r.Latency.Round(time.Microsecond))
	}
	for _, f := range p.Faults {
		who := replicaName(f.Replica)
		if f.ofServer() {
			who = "server"
		}
		fmt.Fprintf(&b, "%12v %-8s %s for %v (amount %v, count %d)\n", f.At.Round(time.Microsecond), who, f.Kind,
			f.For.Round(time.Millisecond), f.Amount, f.Count)
	}
	return b.String()
}

func replicaName(i int) string {
	if i == Worker {
		return "worker"
	}
	return string(rune('a' + i))
}
