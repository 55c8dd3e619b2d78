package fenceagents_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
	"github.com/bellwether-k8s/bellwether/internal/subprocess"
)

// Children of an agent: such as ipmitool, and such as telnet on a terminal of its own.
var kinds = []string{"in the group", "in a session of its own"}

func TestTimeoutKillsAll(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			err := f.agents().Switch(t.Context(),
				target(map[string]string{"plug": "1", "does": "hangs", "child": kind}),
				agent.Command{Action: agent.ActionOff, Timeout: time.Second})
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "it had 1s")
			assert.NotErrorIs(t, err, agent.ErrAlive)
			for _, begun := range f.calls() { // none, if the machine is very busy
				assertGone(t, begun.Child)
				assertGone(t, begun.PID)
			}
		})
	}
}

// The deadline of a caller is the time of a reading, also if it is later than Timeout.
func TestReadingHasTheTimeOfItsContext(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	config := configFor(f.directory)
	config.Timeout = time.Nanosecond
	agents, err := fenceagents.New(config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	read := target(map[string]string{"plug": "1", "says": "Status: ON"})
	power, err := agents.Power(ctx, read)
	assert.NoError(t, err)
	assert.Equal(t, agent.PowerOn, power)
	_, err = agents.Power(t.Context(), read)
	assert.ErrorContains(t, err, "it had 1ns")
}

func TestEndOfTheContextKillsAll(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			why := errors.New("no leader any more")
			ctx, cancel := context.WithCancelCause(t.Context())
			var canceling sync.WaitGroup
			defer canceling.Wait()
			canceling.Go(func() {
				f.call()
				cancel(why)
			})
			power, err := f.agents().Power(ctx, target(map[string]string{"plug": "1", "does": "hangs", "child": kind}))
			assert.ErrorIs(t, err, why)
			assert.Equal(t, agent.PowerUnknown, power)
			assertGone(t, f.call().Child)
		})
	}
}

func TestNothingOutlivesAnAgentThatHasEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			power, err := f.agents().Power(t.Context(),
				target(map[string]string{"plug": "1", "says": "Status: ON", "child": kind}))
			assert.NoError(t, err)
			assert.Equal(t, agent.PowerOn, power)
			assertGone(t, f.call().Child)
		})
	}
}

// short is a patience that is lost for sure, because what is waited for lives on.
const short = 300 * time.Millisecond

func TestWhatCannotBeFoundIsReported(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	agents.SetPatience(short)
	power, err := agents.Power(t.Context(),
		target(map[string]string{"plug": "1", "says": "Status: OFF", "code": "2", "child": "escaped"}))
	assert.ErrorIs(t, err, agent.ErrAlive)
	assert.Equal(t, agent.PowerUnknown, power)
	kill(t, f.call().Child)
}

func TestWhatCannotBeFoundIsReportedAfterTheEndOfTheContextToo(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	agents := f.agents()
	agents.SetPatience(short)
	ctx, cancel := context.WithCancel(t.Context())
	var canceling sync.WaitGroup
	defer canceling.Wait()
	canceling.Go(func() {
		f.call()
		cancel()
	})
	err := agents.Switch(ctx, target(map[string]string{"plug": "1", "does": "hangs", "child": "escaped"}), off)
	assert.ErrorIs(t, err, agent.ErrAlive)
	assert.ErrorIs(t, err, context.Canceled)
	kill(t, f.call().Child)
}

func kill(t *testing.T, orphan int) {
	t.Helper()
	require.NoError(t, unix.Kill(orphan, unix.SIGKILL))
	require.Eventually(t, func() bool { // it is the tests' own when its parent has ended
		reaped, err := unix.Wait4(orphan, nil, unix.WNOHANG, nil)
		return reaped == orphan && err == nil
	}, patience, time.Millisecond)
}

func TestFloodsEndWithTheTimeout(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	err := f.agents().Switch(t.Context(), target(map[string]string{"plug": "1", "does": "floods"}),
		agent.Command{Action: agent.ActionOff, Timeout: time.Second})
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, len(err.Error()), 2000)
}

func TestAgentDiesWithTheController(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	controller := subprocess.New(t, "controller")
	controller.Args = append(controller.Args, f.directory, "hangs", "in the group")
	controller.Start()
	running := f.call()
	controller.Send(unix.SIGKILL)
	assert.Equal(t, "signal: killed", controller.End())
	var status unix.WaitStatus
	require.Eventually(t, func() bool {
		reaped, err := unix.Wait4(running.PID, &status, unix.WNOHANG, nil) // it is the tests' own by now
		return reaped == running.PID && err == nil
	}, patience, time.Millisecond)
	assert.Equal(t, unix.SIGKILL, status.Signal())
	// What the agent has started lives on: it has one command to carry out at most.
	kill(t, running.Child)
}

func TestChildReapedByOtherCodeIsReported(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	controller := subprocess.New(t, "controller that sees no child end")
	controller.Args = append(controller.Args, f.directory, "", "")
	controller.Start()
	assert.Contains(t, controller.Rest(), "other code in this process has waited for it")
	assert.Equal(t, "exit status 0", controller.End())
}
