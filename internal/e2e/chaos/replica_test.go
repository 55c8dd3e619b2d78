package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/process"
)

// replica is a place where processes run one after another, like those of a Deployment or a
// StatefulSet. It belongs to one goroutine, except alive.
type replica struct {
	c      *cluster
	index  int
	random *rand.Rand
	proxy  *e2e.Proxy

	generation, pod, run int // so many names, Pods, and processes there were
	process              *e2e.Process
	watched              sync.WaitGroup

	mu   sync.Mutex
	name string // of the shard that runs; empty: none does
}

// revival is how a process comes after another.
type revival int

const (
	samePod revival = iota
	newPod          // of the same name, as of a StatefulSet
	newName         // as of a Deployment
	revivals
)

func (c *cluster) newReplica(index int) *replica {
	c.t.Helper()
	proxy, err := c.cp.Proxy()
	require.NoError(c.t, err)
	return &replica{c: c, index: index, random: c.randomness(uint64(index) + 1), proxy: proxy}
}

// start starts a process.
func (r *replica) start(how revival) {
	switch how {
	case newName:
		r.generation++
		fallthrough
	case newPod:
		r.pod++
	}
	r.run++
	name := fmt.Sprintf("s%d-%d", r.index, r.generation)
	process := fmt.Sprintf("%s-%d", name, r.run)
	path := filepath.Join(r.c.cp.Dir, process+".journal")
	r.c.judge.follow(process, name, path)
	p, err := r.c.cp.Run(e2e.Command{
		Name: process, Path: r.c.program,
		Args: []string{
			"-namespace", r.c.namespace, "-ring", ringName, "-identity", name, "-incarnation",
			fmt.Sprintf("pod-%d-%d", r.index, r.pod),
			"-kubeconfig", r.c.kubeconfig(r.proxy, name), "-work-kubeconfig",
			r.c.kubeconfig(r.proxy, name+workUser, workGroup),
			"-journal", path, "-lease-duration", leaseDuration.String(), "-kernel-deadline",
			"-scan-interval", scanInterval.String(), "-gc-period", gcPeriod.String(),
			"-slowness", fmt.Sprint(r.c.plan.slowness),
		},
	})
	if !assert.NoError(r.c.t, err) {
		return
	}
	r.process = p
	r.alive(name)
	r.watched.Go(func() { r.watch(process, p) })
}

// watch tells the judge of the end of a process.
func (r *replica) watch(name string, p *e2e.Process) {
	exit, err := p.Wait(context.WithoutCancel(r.c.t.Context()))
	if !assert.NoError(r.c.t, err) {
		return
	}
	at := process.SinceBoot() - time.Since(exit.At)
	r.alive("")
	why := death
	if exit.Code == 0 {
		why = release
	}
	r.c.judge.ended(name, at, why)
	if exit.Code != 0 && exit.Code != exitLost && exit.Signal != syscall.SIGKILL {
		log, _ := os.ReadFile(p.Log())
		r.c.judge.complain(fmt.Sprintf("%s failed: %s: %s", name, exit, log[max(0, len(log)-3000):]))
	}
	r.c.count("ended: " + exit.String())
	r.c.retire(p.Log())
}

// alive notes which shard runs.
func (r *replica) alive(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name = name
}

// shard returns which shard runs; empty: none does.
func (r *replica) shard() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.name
}

// awaitEnd waits for the end of the process, and kills it if that takes too long. It reports
// whether the process has ended by itself.
func (r *replica) awaitEnd(patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.c.t.Context()), patience)
	defer cancel()
	_, err := r.process.Wait(ctx)
	if err != nil {
		assert.NoError(r.c.t, r.process.Kill())
	}
	r.watched.Wait()
	return err == nil
}

// heal ends all that was done to a replica.
func (r *replica) heal() {
	r.proxy.Heal()
	_ = r.process.Resume()
}

// keep has a replica running until ctx has ended.
func (r *replica) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.process.Done():
			r.watched.Wait()
			r.start(samePod)
		}
	}
}

// suffer lets one fault after another happen to a replica, until ctx has ended.
func (r *replica) suffer(ctx context.Context, deck *deck[fault]) {
	defer r.heal()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(between(r.random, r.c.plan.rest/5, r.c.plan.rest)):
			f := deck.draw()
			r.c.count(f.name)
			f.happen(ctx, r)
		case <-r.process.Done(): // by something else that happened, to the API server
			r.watched.Wait()
			if pause(ctx, between(r.random, 0, 3*time.Second)) {
				r.start(revival(r.random.IntN(int(revivals))))
			}
		}
	}
}
