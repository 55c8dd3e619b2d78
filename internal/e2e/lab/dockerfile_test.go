package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/lab/labtest"
)

// The Debian packages in the Dockerfile of the fencer have the agents of the example's
// configuration, and the programs that these execute.
func TestDockerfileHasTheAgents(t *testing.T) {
	labtest.Need(t)
	const fencer = "../../../examples/fencer"
	dockerfile, err := os.ReadFile(filepath.Join(fencer, "Dockerfile"))
	require.NoError(t, err)
	install := regexp.MustCompile(`--no-install-recommends ([^&]+) &&`).FindSubmatch(dockerfile)
	require.NotNil(t, install)
	packages := strings.Fields(string(install[1]))

	configuration, err := os.ReadFile(filepath.Join(fencer, "configuration.yaml"))
	require.NoError(t, err)
	programs := map[string]bool{"ipmitool": true, "snmpget": true}
	for _, agent := range regexp.MustCompile(`agent_name=(\w+)`).FindAllSubmatch(configuration, -1) {
		programs[string(agent[1])] = true
	}
	assert.Len(t, programs, 4)
	for program := range programs {
		path, err := exec.LookPath(program)
		require.NoError(t, err)
		path, err = filepath.EvalSymlinks(path)
		require.NoError(t, err)
		owner, err := exec.CommandContext(t.Context(), "dpkg", "-S", path).Output()
		require.NoError(t, err, program)
		name, _, _ := strings.Cut(string(owner), ":")
		assert.Contains(t, packages, name, program)
	}
}
