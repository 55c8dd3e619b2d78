package devices_test

import (
	"context"
	"net/http"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/kdump"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// dumpSender is what a dump kernel runs.
const dumpSender = "/usr/libexec/fence-agents/fence_kdump_send"

// The kernel of a machine has crashed, and its dump kernel reports that. The machine's pod is
// released, and its power stays on for as long as the policy allows. All that the program sends
// comes from 127.0.0.1, which is the address of this machine alone.
func TestDump(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	s := newBMCSite(t)
	s.setting("kdump=yes", "kdump_timeout="+timeout.String(), "power_wait=2s")
	s.patchNode(s.node, `{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}]}}`, "status")
	ports := make(chan uint16, 1)
	config := shared.User(s.user())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return oneRecord{v1alpha1.Name(s.node), next} })
	c := s.leadBy(config, func(c *fencing.Config) {
		c.Dumps = func() (fencing.Dumps, error) {
			port, err := kdump.Listen("127.0.0.1:0")
			if err == nil {
				ports <- port.Address().Port()
			}
			return port, err
		}
	})
	defer c.stop()
	s.checked(corev1.ConditionTrue)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	sender := exec.CommandContext(ctx, dumpSender, "--ipport", strconv.Itoa(int(<-ports)), "--family", "ipv4",
		"--interval", "1", "127.0.0.1")
	require.NoError(t, sender.Start())
	defer func() {
		end()
		assert.ErrorContains(t, sender.Wait(), "killed", "it sends until it is ended")
	}()
	<-time.After(2 * time.Second) // for what is sent now the node works
	require.NotNil(t, s.pod(podPlain))
	s.lose()
	s.eventually("the pod is released", func() bool { return s.pod(podPlain) == nil })
	require.True(t, s.machine.On())
	released := s.record().Status
	assert.Equal(t, v1alpha1.PhaseIsolated, released.Phase)
	require.NotEmpty(t, released.Evidence)
	assert.Equal(t, v1alpha1.SourceKdump, released.Evidence[0].Source)
	s.reaches(v1alpha1.PhaseFinal)
	assert.Equal(t, 1, count(s.plugs["bmc"], false))
	for _, command := range s.plugs["bmc"].Commands() {
		if !command.On {
			assert.GreaterOrEqual(t, command.At.Sub(released.Evidence[0].Readings[0].At.Time), timeout)
		}
	}
	assert.Equal(t, v1alpha1.ReleasedDone, s.record().Status.Released)
}
