package sharder_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/sharder/api"
)

// TestMigrationToShardsAndBack rolls a controller of two replicas from one release to the next, one
// replica at a time: client-go's elector, this project's elector with StripLabels, shards, and all
// the way back. On the way back one shard is killed, and another works for longer. All elect on the
// same Lease.
func TestMigrationToShardsAndBack(t *testing.T) {
	t.Parallel()
	e2e.Repeat(t, func(t *testing.T) {
		f := newCluster(t)
		f.create(many)
		all := f.list()
		a := f.join("a", "-plain")
		f.requireSaid("a", 0, "alone")
		b := f.join("b", "-plain")
		f.requireAlone(all, "a")

		c := f.join("c", "-bridge")
		f.end(a)
		d := f.join("d", "-bridge")
		f.end(b)
		f.requireAlone(all, "c", "d")

		e := f.join("e")
		f.end(c)
		g := f.join("g", "-without-sharder")
		f.end(d)
		f.requireSettled("e", "g")
		f.requireWorkedOn(all, "e", "g")

		h := f.join("h", "-bridge")
		require.NoError(t, e.Kill())
		f.eventually(func() bool { return strings.Contains(f.log(h), "waiting for shards to end") },
			"h does not wait, though g is at work")
		f.end(g)
		f.requireAlone(all, "h")
		for _, o := range f.list() {
			assert.NotContains(t, o.GetLabels(), api.ShardLabel(ringName))
			assert.NotContains(t, o.GetLabels(), api.DrainLabel(ringName))
			assert.NotContains(t, o.GetAnnotations(), recordAnnotation(o.kind))
		}

		i := f.join("i", "-plain")
		f.end(h)
		f.requireAlone(all, "i")
		f.end(i)
		f.requireExclusion()
	})
}

// join starts a replica, and waits until a signal that it gets will be heeded.
func (c *cluster) join(name string, args ...string) *e2e.Process {
	c.t.Helper()
	p := c.start(name, args...)
	c.requireSaid(name, 0, "started")
	return p
}

// end ends a replica as a rolling update does.
func (c *cluster) end(p *e2e.Process) {
	c.t.Helper()
	require.NoError(c.t, p.Terminate())
	c.requireExit(p, 0)
}

// requireAlone waits until one of these replicas was the last to work on each object.
func (c *cluster) requireAlone(objects []object, replicas ...string) {
	c.t.Helper()
	c.eventually(func() bool {
		last := map[string]bool{}
		for _, o := range objects {
			workers := c.referee.workers(o.GetUID())
			if len(workers) == 0 {
				return false
			}
			last[workers[len(workers)-1]] = true
		}
		for _, name := range replicas {
			if len(last) == 1 && last[name] {
				return true
			}
		}
		return false
	}, "none of %q works on all objects", replicas)
}
