package bellwether_test

import (
	"os"
	"regexp"
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
	var direct []string
	for _, r := range requirements(t, ".") {
		if !r.indirect {
			direct = append(direct, r.path)
		}
	}
	assert.NotEmpty(t, direct)
	assert.Subset(t, allowed, direct)
}

// Modules that differ in one of the versions that Kubernetes' client libraries depend on have all of
// these compiled once for each version, which takes minutes.
func TestModulesAgreeOnVersions(t *testing.T) {
	versions := map[string]string{}
	for _, module := range []string{
		".", "cmd/kubectl-bellwether", "controllerruntime", "examples/controllerruntime", "examples/demo",
		"examples/fencer", "internal/e2e", "metrics",
	} {
		for _, r := range requirements(t, module) {
			if known, ok := versions[r.path]; ok {
				assert.Equal(t, known, r.version, "%s in %s/go.mod; other modules have the first one", r.path, module)
			}
			versions[r.path] = r.version
		}
	}
	assert.NotEmpty(t, versions)
}

type requirement struct {
	path, version string
	indirect      bool
}

var requirementLine = regexp.MustCompile(`(?m)^(?:require |\t)(\S+\.\S+) (v\S+)( // indirect)?$`)

func requirements(t *testing.T, module string) []requirement {
	t.Helper()
	content, err := os.ReadFile(module + "/go.mod")
	require.NoError(t, err)
	var all []requirement
	for _, m := range requirementLine.FindAllStringSubmatch(string(content), -1) {
		all = append(all, requirement{path: m[1], version: m[2], indirect: m[3] != ""})
	}
	return all
}
