package leasehold

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/handover"
	"github.com/bellwether-k8s/bellwether/internal/lease"
)

// scope begins a piece of work under the guardian's term.
func (g *guardian) scope(ctx context.Context) (context.Context, *Scope) {
	return (&Holder{Term: g.term, guard: g.Guard}).Scope(ctx)
}

const margin = 3 * time.Second

func TestScopeIsOpenAsLongAsARequestMayBeCarriedOut(t *testing.T) {
	unavailable := answer(http.StatusGatewayTimeout, http.NoBody)
	for _, c := range []struct {
		name         string
		base         roundTripper
		config       GuardConfig
		method, path string
		open         time.Duration // after the answer or failure
	}{
		{"answered", ok, GuardConfig{}, http.MethodPost, pods, 0},
		{
			"refused by the server", answer(http.StatusConflict, http.NoBody),
			GuardConfig{},
			http.MethodPut, pods + "/p",
			0,
		},
		{"given up by the server", unavailable, GuardConfig{}, http.MethodPut, pods + "/p", usable + margin},
		{
			"with a shorter timeout", unavailable,
			GuardConfig{},
			http.MethodPut, pods + "/p?timeout=2s",
			2*time.Second + margin,
		},
		{
			"without a timeout", unavailable,
			GuardConfig{NoServerTimeout: true},
			http.MethodPut, pods + "/p",
			time.Minute + margin,
		},
		{"through a proxy", unavailable, GuardConfig{}, http.MethodGet, pods + "/p/proxy", time.Minute + margin},
		{"a read", unavailable, GuardConfig{}, http.MethodGet, pods + "/p", 0},
		{"a dry run", unavailable, GuardConfig{}, http.MethodPost, pods + "?dryRun=All", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGuardian(c.base, c.config)
				ctx, s := g.scope(t.Context())
				require.NoError(t, g.do(ctx, c.method, c.path))
				begin := time.Now()
				assert.Equal(t, c.open > 0, s.Open())
				require.NoError(t, s.Settle(t.Context()))
				assert.Equal(t, c.open, time.Since(begin))
				assert.False(t, s.Open())
				g.term.lose(lease.ErrTaken, "")
			})
		})
	}
}

func TestScopeCountsFromTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(stuck, GuardConfig{})
		ctx, s := g.scope(t.Context())
		done := make(chan error)
		go func() { done <- g.do(ctx, http.MethodPost, pods) }()
		time.Sleep(10 * time.Second) // perhaps it arrives only now
		assert.True(t, s.Open(), "no answer yet")
		settled, begin := make(chan error, 1), time.Now()
		go func() { settled <- s.Settle(t.Context()) }()
		assert.Error(t, <-done)
		assert.Equal(t, begin, time.Now(), "its caller waits no longer")
		require.NoError(t, <-settled)
		assert.Equal(t, 2*time.Second+usable+margin, time.Since(begin), "the end of the term has cut it off")
	})
}

func TestScopeSettlesWithItsLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		g := newGuardian(func(r *http.Request) (*http.Response, error) {
			<-answers // whatever becomes of its context
			return ok(r)
		}, GuardConfig{})
		ctx, s := g.scope(t.Context())
		for range 2 {
			go func() { _ = g.do(ctx, http.MethodPost, pods) }()
		}
		synctest.Wait()
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, s.Settle(impatient), context.Canceled)
		settled := make(chan error, 1)
		go func() { settled <- s.Settle(t.Context()) }()
		answers <- struct{}{}
		synctest.Wait()
		assert.Empty(t, settled)
		assert.True(t, s.Open())
		answers <- struct{}{}
		require.NoError(t, <-settled)
		g.term.lose(lease.ErrTaken, "")
	})
}

func TestScopesAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(stuck, GuardConfig{})
		_, a := g.scope(t.Context())
		ctx, b := g.scope(t.Context())
		go func() { _ = g.do(t.Context(), http.MethodPost, pods) }() // of no scope
		go func() { _ = g.do(ctx, http.MethodPost, pods) }()
		synctest.Wait()
		assert.False(t, a.Open())
		assert.True(t, b.Open())
		a.End()
		assert.NoError(t, ctx.Err())
		g.term.lose(lease.ErrTaken, "")
	})
}

func TestEndedScopeSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(ok, GuardConfig{})
		ctx, s := g.scope(t.Context())
		s.End()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		err := g.do(context.WithoutCancel(ctx), http.MethodPost, pods) // work that goes on all the same
		require.ErrorIs(t, err, errNotHeld)
		assert.ErrorContains(t, err, "has ended")
		assert.NotErrorIs(t, err, lease.ErrOutcomeUnknown)
		requireFinal(t, err)
		assert.Zero(t, g.sent.Load())
		assert.NoError(t, g.do(t.Context(), http.MethodPost, pods), "the term goes on")
		assert.Empty(t, g.term.scopes)
		g.term.lose(lease.ErrTaken, "")
	})
}

func TestScopeEndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardian(ok, GuardConfig{})
		ctx, s := g.scope(t.Context())
		detached, _ := g.scope(context.WithoutCancel(ctx))
		g.term.lose(lease.ErrTaken, "b")
		for _, ctx := range []context.Context{ctx, detached} {
			require.Error(t, ctx.Err())
			assert.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
		}
		late, _ := g.scope(t.Context())
		assert.ErrorIs(t, context.Cause(late), lease.ErrLost)
		s.End()

		g.begin()
		assert.ErrorIs(t, g.do(context.WithoutCancel(ctx), http.MethodPost, pods), errNotHeld,
			"work of an earlier term")
		require.NoError(t, g.term.finish())
		g.term.cancelRequests()
		after, _ := g.scope(t.Context())
		assert.ErrorIs(t, context.Cause(after), context.Canceled)
	})
}

// Package fresh needs to know when the term of a context is over, even if the context has ended before.
func TestAContextShowsWhenItsTermIsOver(t *testing.T) {
	isOver := func(ctx context.Context) bool {
		over, ofTerm := handover.TermOf(ctx)
		require.True(t, ofTerm)
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	for name, end := range map[string]func(g *guardian){
		"lost":  func(g *guardian) { g.term.lose(lease.ErrTaken, "b") },
		"ended": func(g *guardian) { assert.NoError(t, g.term.finish()) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuardian(ok, GuardConfig{})
			scoped, scope := g.scope(t.Context())
			scope.End()
			assert.False(t, isOver(scoped))
			assert.False(t, isOver(g.named(t.Context())))
			end(g)
			assert.True(t, isOver(scoped))
			assert.True(t, isOver(g.named(t.Context())))
		})
	}
}
