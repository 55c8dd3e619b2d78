package leaderelectiontest_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/leaderelection/leaderelectiontest"
)

// failing is a test that may fail.
type failing struct {
	testing.TB
	failure string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf returns how test fails, empty if it does not.
func failureOf(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f.failure
}

// What cannot be done is said. A test would wait for it otherwise.
func TestMisuseIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, misuse := range map[string]struct {
			config leaderelection.Config
			test   func(*leaderelectiontest.Election)
			says   string
		}{
			"no Run": {
				test: (*leaderelectiontest.Election).Elect,
				says: "the elector does not lead: is its Run called, and has the work of its last term returned?",
			},
			"deposed twice": {
				test: (*leaderelectiontest.Election).Depose,
				says: "Depose: the elector does not lead: call Elect first",
			},
			"no StepDown": {
				test: (*leaderelectiontest.Election).StepDown,
				says: "set Config.StepDown, as in the program: without it the work is not asked to end",
			},
			"invalid": {
				config: leaderelection.Config{Namespace: "!"},
				says:   `leaderelection: Namespace: a lowercase RFC 1123 label must consist of`,
			},
			"work that goes on": {
				config: leaderelection.Config{StepDown: time.Second},
				test: func(e *leaderelectiontest.Election) {
					ctx, end := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() {
						ended <- e.Elector.Run(ctx, func(context.Context) error {
							<-ctx.Done() // of the process
							return nil
						})
					}()
					defer func() {
						end()
						assert.ErrorIs(t, <-ended, leaderelection.ErrLost)
					}()
					e.Elect()
					e.StepDown()
				},
				says: "StepDown: the lead is lost: the work has not returned in 1s after it was asked to end",
			},
		} {
			assert.Contains(t, failureOf(t, func(t testing.TB) {
				e := leaderelectiontest.New(t, misuse.config)
				misuse.test(e)
			}), misuse.says, name)
		}
	})
}

// An assertion that fails in the work fails its test; the process goes on.
func TestWorkMayEndByGoexit(t *testing.T) {
	election := leaderelectiontest.New(t, leaderelection.Config{})
	ended := make(chan error, 1)
	go func() {
		ended <- election.Elector.Run(t.Context(), func(context.Context) error {
			runtime.Goexit()
			return nil
		})
	}()
	election.Elect()
	require.NoError(t, <-ended)
}

// The hooks and OnLost of the configuration are called.
func TestHooksAreCalled(t *testing.T) {
	var said []string
	election := leaderelectiontest.New(t, leaderelection.Config{
		OnLost: func(error) { said = append(said, "lost") },
		Hooks: leaderelection.Hooks{
			OnStartedLeading: func(leaderelection.Term) { said = append(said, "started") },
			OnStoppedLeading: func(leaderelection.Term, error) { said = append(said, "stopped") },
		},
	})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- election.Elector.Run(ctx, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	}()
	election.Elect()
	election.Elect() // it leads already
	election.Depose()
	end()
	if err := <-ended; err != nil { // the work has returned after the end of ctx
		assert.ErrorIs(t, err, leaderelection.ErrLost)
	}
	assert.Equal(t, []string{"started", "stopped", "lost"}, said)
}

// A program with a loop of its own is elected and deposed, too.
func TestLoops(t *testing.T) {
	election := leaderelectiontest.New(t, leaderelection.Config{})
	_, err := election.Elector.TryAcquire(t.Context())
	var held *leaderelection.HeldError
	require.ErrorAs(t, err, &held)
	assert.Equal(t, leaderelectiontest.Another, held.Holder)
}
