package lab

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

func TestPortThatSomebodyElseWasFasterToBindIsNotTheServers(t *testing.T) {
	t.Parallel()
	l, err := New(t.TempDir())
	require.NoError(t, err)
	defer func() { assert.NoError(t, l.Close()) }()
	_, _, err = l.onFreePort("late", func(port int) (e2e.Command, error) {
		faster, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			t.Cleanup(func() { _ = faster.Close() })
		}
		return e2e.Command{Path: "false"}, err
	})
	require.ErrorContains(t, err, "it has ended")
}
