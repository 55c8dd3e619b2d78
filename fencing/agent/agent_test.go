package agent_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

func TestParametersAreNotPrinted(t *testing.T) {
	target := agent.Target{Parameters: agent.NewParameters(map[string]string{"password": "hunter2", "ip": "192.0.2.1"})}
	encoded, err := json.Marshal(target)
	require.NoError(t, err)
	core, logs := observer.New(zap.DebugLevel)
	zap.New(core).Info("x", zap.Any("target", target), zap.Any("parameters", target.Parameters),
		zap.Reflect("p", &target))
	logged, err := json.Marshal(logs.All()[0].ContextMap())
	require.NoError(t, err)
	for _, printed := range []string{
		fmt.Sprint(target), fmt.Sprintf("%v %+v %#v", target, target, target),
		fmt.Sprintf("%s %q %d %x", target.Parameters, target.Parameters, target.Parameters, target.Parameters),
		fmt.Sprintf("%#v", &target), string(encoded), string(logged), fmt.Sprint(logs.All()[0].ContextMap()),
	} {
		require.NotContains(t, printed, "hunter2")
		require.NotContains(t, printed, fmt.Sprintf("%x", "hunter2"))
		require.Contains(t, printed, "password")
	}
}

func TestParametersAreACopy(t *testing.T) {
	values := map[string]string{"plug": "1"}
	p := agent.NewParameters(values)
	values["plug"] = "2"
	plug, ok := p.Get("plug")
	require.True(t, ok)
	require.Equal(t, "1", plug)
	_, ok = p.Get("ip")
	require.False(t, ok)
	require.Equal(t, []string{"plug"}, p.Names())
}
