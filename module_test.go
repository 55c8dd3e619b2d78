package bellwether_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
// these compiled once for each version, which takes minutes. So there are two sets: what users get, with
// the oldest client-go that works, and what the control plane is made of. All that runs in the workspace
// of make test has the second.
func TestModulesAgreeOnVersions(t *testing.T) {
	oldest, newest := map[string]string{}, map[string]string{}
	for _, module := range []string{
		".", "cmd/kubectl-bellwether", "controllerruntime", "examples/fencer", "metrics",
	} {
		agree(t, oldest, module)
	}
	agree(t, newest, "internal/e2e")
	shared := workspace(t)
	for path, version := range newest {
		if _, ok := shared[path]; ok {
			assert.Equal(t, version, shared[path], "%s in the workspace; internal/e2e has the first one", path)
		}
	}
	agree(t, newest, "internal/e2e/controlplane")
	agree(t, newest, "examples/demo")
	agree(t, newest, "examples/controllerruntime")
	assert.NotEqual(t, oldest["k8s.io/client-go"], newest["k8s.io/client-go"])
}

// agree adds what a module requires.
func agree(t *testing.T, versions map[string]string, module string) {
	t.Helper()
	for _, r := range requirements(t, module) {
		if r.version == "v0.0.0" { // replaced
			continue
		}
		if known, ok := versions[r.path]; ok {
			assert.Equal(t, known, r.version, "%s in %s/go.mod; other modules have the first one", r.path, module)
		}
		versions[r.path] = r.version
	}
	assert.NotEmpty(t, versions)
}

// workspace returns the versions that the workspace of the Makefile has.
func workspace(t *testing.T) map[string]string {
	t.Helper()
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	modules := regexp.MustCompile(`(?m)^MODULES := (.*)$`).FindSubmatch(makefile)
	require.NotNil(t, modules)
	root, err := os.Getwd()
	require.NoError(t, err)
	work := "go 1.26.0\n"
	for _, module := range strings.Fields(string(modules[1])) {
		work += fmt.Sprintf("use %q\n", filepath.Join(root, module))
	}
	file := filepath.Join(t.TempDir(), "go.work")
	require.NoError(t, os.WriteFile(file, []byte(work), 0o600))
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "all")
	list.Env = append(os.Environ(), "GOWORK="+file)
	output, err := list.Output()
	require.NoError(t, err)
	versions := map[string]string{}
	for line := range strings.Lines(string(output)) {
		if path, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok && version != "" {
			versions[path] = version
		}
	}
	return versions
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
