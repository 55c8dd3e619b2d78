package chaos_test

import (
	"context"
	"fmt"
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

// replica is a victim of faults. It belongs to one goroutine, except alive.
type replica struct {
	e2e.Victim
	c     *cluster
	index int

	generation, pod, run int // so many names, Pods, and processes there were
	watched              sync.WaitGroup

	mu   sync.Mutex
	name string // of the shard that runs; empty: none does
}

func (c *cluster) newReplica(index int) *replica {
	c.t.Helper()
	proxy, err := c.cp.Proxy()
	require.NoError(c.t, err)
	r := &replica{c: c, index: index}
	r.Victim = e2e.Victim{
		T: c.t, Random: c.randomness(uint64(index) + 1), Lease: leaseDuration, Proxy: proxy, Start: r.start,
		Happened: &c.happened,
	}
	return r
}

// start starts a process.
func (r *replica) start(how e2e.Revival) {
	r.watched.Wait() // for the end of the one before
	switch how {
	case e2e.NewName:
		r.generation++
		fallthrough
	case e2e.NewPod:
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
			"-kubeconfig", r.c.kubeconfig(r.Proxy, name), "-work-kubeconfig",
			r.c.kubeconfig(r.Proxy, name+workUser, workGroup),
			"-journal", path, "-lease-duration", leaseDuration.String(), "-kernel-deadline",
			"-scan-interval", scanInterval.String(), "-gc-period", gcPeriod.String(),
			"-slowness", fmt.Sprint(r.c.plan.slowness),
		},
	})
	if !assert.NoError(r.c.t, err) {
		return
	}
	r.Process = p
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
	r.Happened.Count("ended: " + exit.String())
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
