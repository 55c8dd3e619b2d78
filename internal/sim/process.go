package sim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// Process is one incarnation of a replica.
type Process struct {
	// Name is unique among all incarnations of all replicas.
	Name string
	// Clock is its time. Whatever runs in the process waits by it.
	Clock *Clock

	connection *apisim.Client
	world      *World
	cancel     context.CancelFunc
	parent     *Process // may be nil
	replica    int      // of a parent

	mu     sync.Mutex
	paused bool
	dead   bool
	woken  time.Time     // when the last pause ended
	aware  time.Time     // from when its timers must have noticed that pause
	notice time.Duration // how long they need after this one
	ending bool          // asked to end
	drain  time.Duration
}

// Drain returns how long its work takes to stop when its context ends.
func (p *Process) Drain() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drain
}

// World returns the schedule that the process runs in.
func (p *Process) World() *World { return p.world }

// Config returns the configuration for the process's clients.
func (p *Process) Config() *rest.Config { return p.connection.Config() }

// Exit ends the process from within. It does not return; the calling goroutine ends when the
// schedule is over.
func (p *Process) Exit() {
	p.world.kill(p, exitRestart)
	<-p.world.over
	runtime.Goexit()
}

// pause stops the process. It continues after d, if it is still alive.
func (p *Process) pause(how Pause, d time.Duration) {
	p.set(func() {
		if p.dead || p.paused {
			return
		}
		p.paused, p.notice = true, time.Until(p.aware)
		if how != Stop {
			p.notice = p.world.scenario.Unaware
		}
		p.Clock.stop(how)
		p.connection.Pause()
		time.AfterFunc(d, p.resume)
	})
}

func (p *Process) resume() {
	p.set(func() {
		if !p.dead && p.paused {
			p.paused, p.woken, p.aware = false, time.Now(), time.Now().Add(p.notice)
			p.Clock.resume()
			p.connection.Resume()
		}
	})
	p.deliverTermination()
}

// die is SIGKILL.
func (p *Process) die() {
	p.set(func() {
		p.dead = true
		p.Clock.stop(Stop)
		p.connection.Pause()
	})
}

// suffer does to the parent of a process what a fault that kills the process brings: nothing, or
// the parent is stopped or killed at one of its next readings of the clock, or it dies first, and
// the process with it.
func (p *Process) suffer(f *Fault) {
	reading := 1 + int(f.For/time.Millisecond)%12
	switch {
	case f.Count >= 9:
		p.die()
	case f.Count >= 7:
		p.Clock.afterReadings(reading, p.die)
	case f.Count >= 4:
		p.Clock.afterReadings(reading, func() { p.pause(Stop, f.For) })
	}
}

// terminate is SIGTERM, which a stopped process gets when it continues. Its work takes drain to stop.
func (p *Process) terminate(drain time.Duration) {
	p.set(func() { p.ending, p.drain = true, drain })
	p.deliverTermination()
}

func (p *Process) deliverTermination() {
	deliver := false
	p.set(func() { deliver = p.ending && !p.paused && !p.dead })
	if deliver {
		p.cancel()
	}
}

// bury lets the goroutines of a dead process, or of one at the end of the schedule, end without the
// world.
func (p *Process) bury() {
	p.set(func() { p.dead = true })
	p.connection.Sever()
	p.Clock.resume()
	p.connection.Resume()
	p.cancel()
}

func (p *Process) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// acting reports whether the process could do something now. A stopped one cannot, and one that was
// woken in this instant cannot be blamed for not having noticed.
func (p *Process) acting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead && !p.paused && !p.woken.Equal(time.Now())
}

// stopping reports whether the process has been asked to end.
func (p *Process) stopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending
}

// working is like acting, for a process whose timers have to notice first, because they stand still
// with the machine.
func (p *Process) working() bool {
	p.mu.Lock()
	aware := time.Now().After(p.aware)
	p.mu.Unlock()
	return aware && p.acting()
}

// HasPaused reports whether the process has ever been stopped, so that it may have acted on
// outdated knowledge.
func (p *Process) HasPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused || !p.woken.IsZero()
}

// HasPausedWithin reports whether the process is stopped, or was at any time in the last d, so that a
// request that it had checked before may arrive only now.
func (p *Process) HasPausedWithin(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused || !p.woken.IsZero() && time.Since(p.woken) <= d
}

// Alive reports whether the process has not ended; a stopped one has not.
func (p *Process) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead
}

func processName(replica, incarnation int) string {
	return fmt.Sprint(replicaName(replica), incarnation)
}
