package controllerruntime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/apisim"
)

// quiet is as long as client-go remembers how often it had to pause, and shorter than any watch.
const quiet = 150 * time.Second

// restartServer has the caches of these programs list again.
func restartServer(a admin, server *apisim.Server, programs ...*program) {
	for _, p := range programs {
		p.connection.Inject(apisim.Faults{Refuse: apisim.Always})
	}
	server.Restart(0)
	a.create("new-" + time.Now().Format("15-04-05"))
	server.Compact()
	for _, p := range programs {
		p.connection.Inject(apisim.Faults{})
	}
}

// The cache of the leader lists at once, that of a standby later, unless a term begins meanwhile.
func TestStandbysListAfterTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		leader, standby := newProgram(t, server, "a"), newProgram(t, server, "b")
		var ours, theirs calls
		stopLeader := leader.start(leader.elector.Run, ours.setUp)
		time.Sleep(10 * time.Second)
		stop := standby.start(standby.elector.Run, theirs.setUp)
		time.Sleep(quiet)
		require.True(t, leader.elector.IsLeader())

		from := len(server.Trace())
		restartServer(admin, server, leader, standby)
		time.Sleep(8 * time.Second)
		full, _, _ := leader.requests(from, "configmaps")
		assert.Equal(t, 1, full)
		full, _, _ = standby.requests(from, "configmaps")
		assert.Zero(t, full)
		time.Sleep(time.Minute)
		full, _, _ = standby.requests(from, "configmaps")
		assert.Equal(t, 1, full)
		time.Sleep(quiet)

		from = len(server.Trace())
		ours.take()
		theirs.take()
		restartServer(admin, server, leader, standby)
		time.Sleep(5 * time.Second)
		assert.NoError(t, stopLeader())
		time.Sleep(time.Second)
		full, _, _ = standby.requests(from, "configmaps")
		assert.Equal(t, 1, full)
		assert.Len(t, theirs.take(), 3, "its cache is fresh")
		assert.NoError(t, stop())
	})
}

// A term that some other elector begins ends when its function ends.
func TestACacheIsHeldAgainAfterATermOfAnyElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apisim.NewServer()
		admin := newAdmin(t, server)
		admin.create("x")
		p := newProgram(t, server, "a")
		p.standby.Config = p.connection.Config()
		terms := newTerms()
		var c calls
		stop := p.start(terms.run, c.setUp)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			terms.begin <- ctx
			time.Sleep(quiet)
			from := len(server.Trace())
			restartServer(admin, server, p)
			time.Sleep(5 * time.Second)
			full, _, _ := p.requests(from, "configmaps")
			assert.Equal(t, 1, full)
			cancel()
			assert.NoError(t, <-terms.ended)

			time.Sleep(quiet)
			from = len(server.Trace())
			restartServer(admin, server, p)
			time.Sleep(10 * time.Second)
			full, _, _ = p.requests(from, "configmaps")
			assert.Zero(t, full)
			time.Sleep(time.Minute)
		}
		assert.NoError(t, stop())
	})
}
