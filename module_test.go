package bellwether_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program that imports one package gets all direct dependencies of the module. They stay few.
func TestDirectDependencies(t *testing.T) {
	allowed := []string{
		"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/utils",
		"github.com/cespare/xxhash/v2", "go.uber.org/zap", "golang.org/x/sys",
		"github.com/stretchr/testify", "go.uber.org/goleak", "k8s.io/klog/v2", "pgregory.net/rapid", // tests
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}}{{end}}",
		"all").Output()
	require.NoError(t, err)
	direct := strings.Fields(string(out))
	assert.NotEmpty(t, direct)
	assert.Subset(t, allowed, direct)
}
