package leaderelectiontest_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/bellwether-k8s/bellwether/leaderelection"
	"github.com/bellwether-k8s/bellwether/leaderelection/leaderelectiontest"
)

// sweeper is an elected program as a user writes it: the leader sweeps until its term ends.
type sweeper struct {
	elector  *leaderelection.Elector
	sweeping chan bool // what it does, for the test
}

func (s *sweeper) run(ctx context.Context) error {
	return s.elector.Run(ctx, func(ctx context.Context) error {
		s.sweeping <- true
		<-ctx.Done()
		s.sweeping <- false
		return nil
	})
}

// This test shows how to test the program: what it does when it is elected, deposed, asked to step
// down, and ended.
func TestOnlyTheLeaderSweeps(t *testing.T) {
	election := leaderelectiontest.New(t, leaderelection.Config{StepDown: 4 * time.Second})
	tested := &sweeper{election.Elector, make(chan bool, 1)}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tested.run(ctx) }()

	assert.Empty(t, tested.sweeping, "another process leads")
	for _, depose := range []func(){election.Depose, election.StepDown} {
		election.Elect()
		assert.True(t, <-tested.sweeping)
		depose()
		assert.False(t, <-tested.sweeping)
		assert.False(t, election.Elector.IsLeader())
	}
	election.Elect()
	assert.True(t, <-tested.sweeping)
	end()
	assert.False(t, <-tested.sweeping)
	require.NoError(t, <-ended)
}

// answering is a transport to an API server that answers each request with a ConfigMap.
type answering struct{ sent []string }

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	a.sent = append(a.sent, r.Method)
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap"}`)),
	}, nil
}

// A guarded client writes only in the term that its context is from.
func TestGuardedClientsRefuseWhenDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		election := leaderelectiontest.New(t, leaderelection.Config{StepDown: 4 * time.Second})
		server := &answering{}
		config := &rest.Config{Host: "https://api.invalid", Transport: server, QPS: -1}
		config.Wrap(election.Elector.WrapTransport)
		client, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		create := func(ctx context.Context) error {
			ctx = context.WithoutCancel(ctx) // otherwise client-go sees the end of the term before the guard does
			_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{}, metav1.CreateOptions{})
			return err
		}

		ctx, end := context.WithCancel(t.Context())
		terms := make(chan context.Context, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- election.Elector.Run(ctx, func(ctx context.Context) error {
				terms <- ctx
				<-ctx.Done()
				return nil
			})
		}()
		synctest.Wait()
		assert.ErrorIs(t, create(ctx), leaderelection.ErrNotLeader)

		election.Elect()
		first := <-terms
		assert.NoError(t, create(first))
		time.Sleep(time.Hour)
		assert.NoError(t, create(first), "the Lease does not expire by itself")
		election.Depose()
		assert.ErrorIs(t, create(first), leaderelection.ErrNotLeader)
		assert.ErrorIs(t, context.Cause(first), leaderelection.ErrLost)
		assert.NotErrorIs(t, context.Cause(first), leaderelection.ErrSteppedDown)
		leader, _ := election.Elector.Leader()
		assert.Equal(t, leaderelectiontest.Another, leader)

		election.Elect()
		second := <-terms
		assert.ErrorIs(t, create(first), leaderelection.ErrNotLeader, "of an earlier term")
		assert.NoError(t, create(second))
		a, _ := leaderelection.TermFrom(first)
		b, _ := leaderelection.TermFrom(second)
		assert.NotEqual(t, b.Token, a.Token)
		assert.Greater(t, b.Transitions, a.Transitions)

		election.StepDown()
		assert.ErrorIs(t, create(second), leaderelection.ErrNotLeader)
		assert.ErrorIs(t, context.Cause(second), leaderelection.ErrSteppedDown)
		election.Elect()
		third := <-terms
		assert.NoError(t, create(third))
		end()
		require.NoError(t, <-ended)
		assert.ErrorIs(t, create(third), leaderelection.ErrNotLeader)
		assert.Equal(t, []string{"POST", "POST", "POST", "POST"}, server.sent)
	})
}
