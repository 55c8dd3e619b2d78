package lab_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

func TestNothingOutlivesALab(t *testing.T) {
	t.Parallel()
	labtest.Need(t)
	dir := t.TempDir()
	l, err := lab.New(dir)
	require.NoError(t, err)
	frozen, err := l.APC(lab.NewPlug(nil))
	require.NoError(t, err)
	device, err := l.APC(lab.NewPlug(nil))
	require.NoError(t, err)
	// or it does not ask for its plugs
	_, err = newAgents(t, "").Power(t.Context(), device.Target("worker-1", "1", nil))
	require.NoError(t, err)
	require.NoError(t, frozen.Freeze())
	running := map[string]bool{}
	look("SNMP_PERSISTENT_DIR="+dir+"/apc-2", "", running)
	assert.Len(t, running, 2, "snmpd, and what it asks")
	assert.NoError(t, l.Close())
	assert.NoError(t, l.Close())
	for _, name := range []string{"apc-1", "apc-2"} {
		assert.Eventually(t, func() bool {
			running := map[string]bool{}
			look("SNMP_PERSISTENT_DIR="+dir+"/"+name, "", running)
			return len(running) == 0
		}, patience, poll)
	}
	_, err = l.BMC(lab.NewPlug(nil))
	assert.Error(t, err)
}

func TestBackEndsMustNotRunTests(t *testing.T) {
	t.Setenv("BELLWETHER_LAB_BACKEND", "@absent")
	_, err := lab.New(os.TempDir())
	assert.ErrorContains(t, err, "TestMain does not call lab.Main")
}
