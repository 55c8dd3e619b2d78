package lab_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

func TestMissingPackagesAreInstalledOrNamed(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	t.Setenv("PATH", bin)
	err := lab.Install(t.Context(), io.Discard)
	assert.ErrorContains(t, err, "these Debian packages are missing: ")
	for _, want := range []string{"openipmi ipmitool", "snmp telnet", "takes root and apt-get"} {
		assert.ErrorContains(t, err, want)
	}
	_, err = lab.New(t.TempDir())
	assert.ErrorContains(t, err, "openipmi ipmitool")

	if os.Geteuid() != 0 {
		return // without root it says so
	}
	script := "#!/bin/sh\necho $DEBIAN_FRONTEND $* >> " + log + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "apt-get"), []byte(script), 0o700))
	assert.ErrorContains(t, lab.Install(t.Context(), io.Discard), "missing", "it has installed nothing")
	calls, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Regexp(t, `^noninteractive update\nnoninteractive install -y --no-install-recommends .*openipmi ipmitool `+
		`.*telnet\n$`, string(calls))
}
