package fencejobs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
)

func someRequest(t *testing.T, a action) request {
	t.Helper()
	w, err := open(time.Now(), 30*time.Second, 30*time.Second,
		Config{StartWithin: 10 * time.Second, ClockSkew: 5 * time.Second})
	require.NoError(t, err)
	return newRequest(operation, a, target(), w)
}

func TestExecute(t *testing.T) {
	rack, dir := rack{fencingtest.NewRack(nil, victim)}, t.TempDir()
	defer rack.Close()
	c := ExecuteConfig{
		Agents: rack, Node: host, RequestPath: filepath.Join(dir, "request"),
		ResultPath: filepath.Join(dir, "result"),
	}
	r := someRequest(t, switchOff)
	require.NoError(t, os.WriteFile(c.RequestPath, []byte(encoded(t, r)), 0o600))
	require.NoError(t, Execute(t.Context(), c))
	assert.Equal(t, 1, rack.Count(victim, "command", agent.ActionOff))
	said, err := os.ReadFile(c.ResultPath)
	require.NoError(t, err)
	answer, err := readResult(string(said), r)
	require.NoError(t, err)
	assert.NoError(t, answer.err())

	long := time.Now().Add(-time.Minute) // when it was put there
	require.NoError(t, os.Chtimes(c.RequestPath, long, long))
	require.ErrorContains(t, Execute(t.Context(), c), "given it")
	c.Node = victim
	require.ErrorContains(t, Execute(t.Context(), c), "the node that it is about")
	assert.Equal(t, 1, rack.Count(victim, "command", agent.ActionOff))

	require.NoError(t, os.WriteFile(c.RequestPath, []byte(`{"parameters":{"password":"`+secret+`"},"x":1}`), 0o600))
	err = Execute(t.Context(), c)
	require.ErrorContains(t, err, "cannot be read")
	assert.NotContains(t, err.Error(), secret)
	c.RequestPath += "-none"
	require.Error(t, Execute(t.Context(), c))
	require.ErrorContains(t, Execute(t.Context(), ExecuteConfig{}), "required")
}

// While the agent was asked what it knows, the window has closed.
func TestSlowMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rack := fencingtest.NewRack(nil, victim)
		defer rack.Close()
		answer := execute(t.Context(), sleepy{rack, 11 * time.Second}, host, someRequest(t, switchOff), time.Now())
		assert.Equal(t, refused, answer.Outcome)
		assert.Zero(t, rack.Count(victim, "command", agent.ActionOff))
		answer = execute(t.Context(), sleepy{rack, 9 * time.Second}, host, someRequest(t, switchOff), time.Now())
		assert.Equal(t, done, answer.Outcome)
		assert.Equal(t, 1, rack.Count(victim, "command", agent.ActionOff))
	})
}

// sleepy are agents that take long to say what they know.
type sleepy struct {
	*fencingtest.Rack
	takes time.Duration
}

func (s sleepy) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	pause(ctx, s.takes)
	return rack{s.Rack}.Metadata(ctx, name)
}

// What an agent says of its command comes back.
func TestWordOfAnAgent(t *testing.T) {
	for _, want := range []error{nil, agent.ErrAlready, agent.ErrNoEffect, errors.ErrUnsupported} {
		rack := fencingtest.NewRack(nil, victim)
		r := someRequest(t, switchOff)
		answer := execute(t.Context(), wordy{rack, want}, host, r, time.Now())
		rack.Close()
		said, err := answer.encode()
		require.NoError(t, err)
		answer, err = readResult(string(said), r)
		require.NoError(t, err)
		for _, e := range []error{agent.ErrAlready, agent.ErrNoEffect} {
			assert.Equal(t, errors.Is(want, e), errors.Is(answer.err(), e), "%v", want)
		}
		assert.Equal(t, want == nil, answer.err() == nil)
	}
}

// wordy are agents that say this of commands.
type wordy struct {
	*fencingtest.Rack
	err error
}

func (w wordy) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	return rack{w.Rack}.Metadata(ctx, name)
}

func (w wordy) Switch(context.Context, agent.Target, agent.Command) error { return w.err }

// The agent gets no more time than the window has: it is dead at its end.
func TestAgentEndsWithTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rack := rack{fencingtest.NewRack(nil, victim)}
		defer rack.Close()
		rack.Break(victim, fencingtest.Fault{Slow: time.Hour})
		r := someRequest(t, readPower)
		answer := execute(t.Context(), rack, host, r, time.Now())
		assert.Equal(t, failed, answer.Outcome)
		assert.Equal(t, r.Window.Ends, answer.Ended)
	})
}

func TestMalformedRequestsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*request){
		"version":    func(r *request) { r.Version++ },
		"ID":         func(r *request) { r.ID = "" },
		"agent":      func(r *request) { r.Agent = "" },
		"action":     func(r *request) { r.Action = "reboot" },
		"no window":  func(r *request) { r.Window = window{} },
		"turned":     func(r *request) { r.Window.Opens, r.Window.Closes = r.Window.Closes, r.Window.Opens },
		"never ends": func(r *request) { r.Window.Ends = r.Window.Opens },
		"skew":       func(r *request) { r.Window.Skew = -1 },
	} {
		r := someRequest(t, switchOff)
		change(&r)
		_, err := readRequest([]byte(encoded(t, r)))
		assert.Error(t, err, name)
	}
	r := someRequest(t, switchOff)
	again, err := readRequest([]byte(encoded(t, r)))
	require.NoError(t, err)
	assert.Equal(t, r, again)
	_, err = readRequest(append([]byte(encoded(t, r)), '{'))
	assert.Error(t, err)
	assert.NotErrorIs(t, err, errors.ErrUnsupported)
}
