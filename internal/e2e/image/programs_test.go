package image_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

const root = "../../.."

// apart are programs without images: the demo and the plugin of kubectl are for a terminal, and the
// last one has no manifests.
var apart = []string{"examples/demo", "cmd/kubectl-bellwether", "examples/controllerruntime/elected"}

// Every command and every example has an image.
func TestImagesAreOfAllPrograms(t *testing.T) {
	var have, want []string
	for _, p := range image.Programs() {
		have = append(have, p.Directory)
	}
	for _, directory := range []string{"cmd", "examples", "fencing"} {
		require.NoError(t, fs.WalkDir(os.DirFS(root), directory, func(path string, _ fs.DirEntry, err error) error {
			directory := filepath.Dir(path)
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
				slices.Contains(slices.Concat(apart, want), directory) {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.PackageClauseOnly)
			if err == nil && file.Name.Name == "main" {
				want = append(want, directory)
			}
			return err
		}))
	}
	assert.ElementsMatch(t, want, have)
}

// An example's image has the name that is in its manifests, with the version that modules require of each other,
// and the entrypoint that is in its Dockerfile.
func TestImagesAreThoseOfTheManifests(t *testing.T) {
	requirements, err := os.ReadFile(filepath.Join(root, "controllerruntime/go.mod"))
	require.NoError(t, err)
	require.Contains(t, string(requirements), "/bellwether "+image.Version+"\n")
	checked := 0
	for _, p := range image.Programs() {
		manifest, err := os.ReadFile(filepath.Join(root, p.Directory, "deployment.yaml"))
		if !strings.HasPrefix(p.Directory, "examples/") {
			require.ErrorIs(t, err, fs.ErrNotExist)
			continue
		}
		require.NoError(t, err)
		assert.Contains(t, string(manifest), "\n        image: "+p.Reference()+"\n")
		dockerfile, err := os.ReadFile(filepath.Join(root, p.Directory, "Dockerfile"))
		require.NoError(t, err)
		assert.Contains(t, string(dockerfile), "\nENTRYPOINT [\"/"+p.File+"\"]\n", p.Directory)
		checked++
	}
	assert.Greater(t, checked, 5)
}
