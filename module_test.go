package bellwether_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// root is the path of this module. Its neighbours, the other modules of the repository, have it as a prefix.
const root = "github.com/bellwether-k8s/bellwether"

// The go.work in the root has the modules that are released. Each of the others has one of its own.
var workspaces = []string{".", "internal/e2e", "internal/dashboards", "examples/demo", "examples/controllerruntime"}

// Modules that differ in one of the versions that Kubernetes' client libraries depend on have all of
// these compiled once for each version, which takes minutes. So there are two sets: what users get, with
// the oldest client-go that works, and what the control plane is made of. The workspace in the root has
// the first, so that a go test ./... there runs with what users get. All others have the second.
func TestModulesAgreeOnVersions(t *testing.T) {
	oldest, newest := map[string]string{}, map[string]string{}
	for _, module := range workspace(t, ".").modules {
		agree(t, oldest, module)
	}
	agree(t, newest, "internal/e2e")
	for _, set := range []struct {
		workspace string
		versions  map[string]string
	}{{".", oldest}, {"internal/e2e", newest}} {
		shared := selected(t, set.workspace)
		for path, version := range set.versions {
			if _, ok := shared[path]; ok {
				assert.Equal(t, version, shared[path], "%s in %s/go.work; go.mod has the first", path, set.workspace)
			}
		}
	}
	agree(t, newest, "internal/e2e/controlplane")
	agree(t, newest, "examples/demo")
	agree(t, newest, "examples/controllerruntime")
	assert.NotEqual(t, oldest["k8s.io/client-go"], newest["k8s.io/client-go"])
	page, err := os.ReadFile("docs/compatibility.md")
	require.NoError(t, err)
	for _, version := range []string{oldest["k8s.io/client-go"], newest["k8s.io/client-go"]} {
		assert.Contains(t, string(page), version, "the page tells which client-go a program gets")
	}
}

// A go.mod that replaces a neighbour cannot be installed by go install, and what it replaces is not what
// consumers get. So each requires its neighbours at one version, and a go.work has the directories for
// it: without that the go command would look for a version that is not released yet.
func TestNeighboursAreReplacedInWorkspacesOnly(t *testing.T) {
	version := requirement{}
	for _, dir := range workspaces {
		work := workspace(t, dir)
		var need []string
		for _, module := range work.modules {
			content, err := os.ReadFile(filepath.Join(module, "go.mod"))
			require.NoError(t, err)
			assert.NotContains(t, string(content), "\nreplace ", "%s/go.mod", module)
			for _, r := range requirements(t, module) {
				if !isNeighbour(r.path) {
					continue
				}
				if version.path == "" {
					version = r
				}
				assert.Equal(t, version.version, r.version, "%s in %s/go.mod", r.path, module)
				need = append(need, r.path+"@"+r.version+" "+filepath.Join(".", strings.TrimPrefix(r.path, root)))
			}
		}
		slices.Sort(need)
		assert.Equal(t, slices.Compact(need), work.replaced, "the replacements of %s/go.work", dir)
		assert.Contains(t, work.modules, dir)
		for _, replaced := range work.replaced {
			_, module, _ := strings.Cut(replaced, " ")
			assert.Contains(t, work.modules, module, "%s/go.work", dir)
		}
	}
	assert.NotEmpty(t, version.version)
}

// All that make test runs is in the workspace of internal/e2e.
func TestTheMakefileHasTheModulesOfTheWorkspace(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	modules := regexp.MustCompile(`(?m)^MODULES := (.*)$`).FindSubmatch(makefile)
	require.NotNil(t, modules)
	assert.ElementsMatch(t, workspace(t, "internal/e2e").modules, strings.Fields(string(modules[1])))
}

func isNeighbour(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// agree adds what a module requires.
func agree(t *testing.T, versions map[string]string, module string) {
	t.Helper()
	for _, r := range requirements(t, module) {
		if isNeighbour(r.path) || r.version == "v0.0.0" { // another directory
			continue
		}
		if known, ok := versions[r.path]; ok {
			assert.Equal(t, known, r.version, "%s in %s/go.mod; other modules have the first one", r.path, module)
		}
		versions[r.path] = r.version
	}
	assert.NotEmpty(t, versions)
}

// work is a go.work, with directories from the root of the repository.
type work struct {
	modules  []string
	replaced []string // <path>@<version> <directory>, sorted
}

func workspace(t *testing.T, dir string) work {
	t.Helper()
	edit := exec.CommandContext(t.Context(), "go", "work", "edit", "-json", filepath.Join(dir, "go.work"))
	output, err := edit.Output()
	require.NoError(t, err)
	var file struct {
		Use     []struct{ DiskPath string }
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	require.NoError(t, json.Unmarshal(output, &file))
	var w work
	for _, use := range file.Use {
		w.modules = append(w.modules, filepath.Join(dir, use.DiskPath))
	}
	for _, r := range file.Replace {
		w.replaced = append(w.replaced, r.Old.Path+"@"+r.Old.Version+" "+filepath.Join(dir, r.New.Path))
	}
	slices.Sort(w.replaced)
	return w
}

// selected returns the versions that a workspace has.
func selected(t *testing.T, dir string) map[string]string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(dir, "go.work"))
	require.NoError(t, err)
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
