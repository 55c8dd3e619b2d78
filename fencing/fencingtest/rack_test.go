package fencingtest_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fencingtest"
	"github.com/bellwether-k8s/bellwether/internal/fencing/remoteagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func target(plug string) agent.Target {
	return agent.Target{Device: plug, Parameters: agent.NewParameters(map[string]string{"plug": plug})}
}

var off = agent.Command{ID: "op-1", Action: agent.ActionOff}

func TestRackExecutesCommands(t *testing.T) {
	var changes []bool
	r := fencingtest.NewRack(func(_ string, on bool) { changes = append(changes, on) }, "1")
	defer r.Close()
	server := httptest.NewServer(remoteagent.Handler(r))
	defer server.Close()
	for _, a := range []agent.Agent{r, remoteagent.Client{URL: server.URL, HTTP: server.Client()}} {
		requirePower(t, a, agent.PowerOn)
		require.NoError(t, a.Switch(t.Context(), target("1"), off))
		requirePower(t, a, agent.PowerOff)
		require.NoError(t, a.Switch(t.Context(), target("1"), agent.Command{ID: "op-2", Action: agent.ActionOn}))
		requirePower(t, a, agent.PowerOn)
		_, err := a.Power(t.Context(), target("9"))
		require.ErrorContains(t, err, `no plug "9"`)
		require.Error(t, a.Switch(t.Context(), target("9"), off))
	}
	require.Equal(t, []bool{false, true, false, true}, changes)
	require.Equal(t, 2, r.Count("1", "command", agent.ActionOff))
	require.Equal(t, 2, r.Count("1", "power", agent.ActionOff))
	require.Equal(t, "op-1", r.Events()[1].Op)
}

func requirePower(t *testing.T, a agent.Agent, want agent.Power) {
	t.Helper()
	got, err := a.Power(t.Context(), target("1"))
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestFaults(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		fault       fencingtest.Fault
		failed      bool
		at0, after3 bool // whether plug 1 is on
		other       bool // whether plug 2 is on after 3 s
	}{
		"none": {other: true},
		"acknowledges and ignores": {
			fault: fencingtest.Fault{Ignore: true}, at0: true, after3: true,
			other: true,
		},
		"fails and does nothing": {
			fault: fencingtest.Fault{Ignore: true, Fail: true}, failed: true, at0: true,
			after3: true, other: true,
		},
		"says that it failed": {fault: fencingtest.Fault{Fail: true}, failed: true, other: true},
		"lands later":         {fault: fencingtest.Fault{Late: 2 * second}, at0: true, other: true},
		"killed, and lands later": {
			fault: fencingtest.Fault{Slow: 2 * second}, failed: true, at0: true,
			other: true,
		},
		"switches another": {fault: fencingtest.Fault{Switches: "2"}, at0: true, after3: true},
		"is over after the first command": {
			fault: fencingtest.Fault{Ignore: true, Times: 1}, at0: true, after3: true,
			other: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := fencingtest.NewRack(nil, "1", "2")
				defer r.Close()
				r.Break("1", c.fault)
				ctx, cancel := context.WithTimeout(t.Context(), second)
				defer cancel()
				err := r.Switch(ctx, target("1"), off)
				require.Equal(t, c.failed, err != nil)
				require.Equal(t, c.at0, r.On("1"))
				time.Sleep(3 * second)
				require.Equal(t, c.after3, r.On("1"))
				require.Equal(t, c.other, r.On("2"))
				if c.fault.Times == 1 {
					require.NoError(t, r.Switch(t.Context(), target("1"), off))
					require.False(t, r.On("1"))
				}
			})
		})
	}
}

func TestUnreadable(t *testing.T) {
	r := fencingtest.NewRack(nil, "1")
	defer r.Close()
	r.Break("1", fencingtest.Fault{Unreadable: true, Times: 2})
	for range 2 {
		power, err := r.Power(t.Context(), target("1"))
		require.Error(t, err)
		require.Equal(t, agent.PowerUnknown, power)
	}
	requirePower(t, r, agent.PowerOn)
}

func TestCloseCancelsWhatWouldLandLater(t *testing.T) {
	r := fencingtest.NewRack(nil, "1")
	r.Break("1", fencingtest.Fault{Late: time.Hour})
	require.NoError(t, r.Switch(t.Context(), target("1"), off))
	r.Close()
	require.True(t, r.On("1"))
}
