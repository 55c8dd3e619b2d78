package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

var toy = image.Program{Image: "toy", Directory: "cmd/toy", File: "toy", Description: "A toy"}

// commit is when the sources of the toy were committed, in a time zone.
var commit = time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))

// repository writes a repository with a program that has a module beside it, and says where.
func repository(t *testing.T, says string) image.Source {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example.com/toy\n\ngo 1.26.0\n\nrequire example.com/part v1.2.3\n",
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./part\n)\n\n" +
			"replace example.com/part v1.2.3 => ./part\n",
		"part/go.mod":     "module example.com/part\n\ngo 1.26.0\n",
		"part/part.go":    "package part\n\nconst Says = \"" + says + "\"\n",
		"cmd/toy/main.go": "package main\n\nimport \"example.com/part\"\n\nfunc main() { println(part.Says) }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), 0o600))
	}
	return image.Source{Root: root, Revision: "0123abc", Created: commit}
}

func build(t *testing.T, from image.Source) image.Built {
	t.Helper()
	b, err := image.Build(t.Context(), from, toy, image.Platforms...)
	require.NoError(t, err)
	return b
}

// The same sources give the same digests in another directory, and when they are built with other
// flags in the environment. Other sources do not.
func TestBuildsAreReproducible(t *testing.T) {
	first := digest(t, build(t, repository(t, "hello")))
	t.Setenv("GOFLAGS", "-ldflags=-X=main.other=1 -tags=other")
	t.Setenv("GOAMD64", "v3")
	assert.Equal(t, first, digest(t, build(t, repository(t, "hello"))))
	assert.NotEqual(t, first, digest(t, build(t, repository(t, "goodbye"))))
}

func digest(t *testing.T, b image.Built) string {
	t.Helper()
	digest, err := b.Index.Digest()
	require.NoError(t, err)
	return digest.String()
}

// The same images give the same archive, and it has all of them.
func TestAnArchiveOfImagesIsReproducible(t *testing.T) {
	images := map[string]v1.Image{}
	for i := range 10 {
		c := image.Config{Platform: image.Platforms[0], Layers: [][]image.File{{image.Tmp}}, User: strconv.Itoa(i)}
		var err error
		images[fmt.Sprintf("toy-%d:v1", i)], err = image.New(c)
		require.NoError(t, err)
	}
	written := func() string {
		file := filepath.Join(t.TempDir(), "images.tar")
		require.NoError(t, image.WriteArchive(file, images))
		for reference, want := range images {
			tag, err := name.NewTag(reference)
			require.NoError(t, err)
			read, err := tarball.ImageFromPath(file, &tag)
			require.NoError(t, err)
			require.NoError(t, validate.Image(read))
			wanted, err := want.ConfigName()
			require.NoError(t, err)
			have, err := read.ConfigName()
			require.NoError(t, err)
			assert.Equal(t, wanted, have)
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		return fmt.Sprintf("%x", sha256.Sum256(content))
	}
	first := written()
	assert.Equal(t, first, written())
}

// What is written as a layout is what the OCI specification requires, and has an image for each
// platform.
func TestLayout(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "images")
	b := build(t, repository(t, "hello"))
	require.NoError(t, image.WriteLayout(directory, []image.Built{b}))
	require.ErrorContains(t, image.WriteLayout(directory, nil), directory+" exists")

	read := func() v1.ImageIndex {
		path, err := layout.FromPath(directory)
		require.NoError(t, err)
		all, err := path.ImageIndex()
		require.NoError(t, err)
		return all
	}
	all := read()
	require.NoError(t, validate.Index(all))
	manifest, err := all.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	assert.Equal(t, "toy", manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	index, err := all.ImageIndex(manifest.Manifests[0].Digest)
	require.NoError(t, err)
	manifest, err = index.IndexManifest()
	require.NoError(t, err)
	assert.Equal(t, types.OCIImageIndex, manifest.MediaType)
	assert.Equal(t, "0123abc", manifest.Annotations["org.opencontainers.image.revision"])
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		image, err := index.Image(m.Digest)
		require.NoError(t, err)
		requireImage(t, image, m.Platform)
	}
	assert.Equal(t, []string{"linux/amd64", "linux/arm64"}, platforms)

	blobs, err := filepath.Glob(filepath.Join(directory, "blobs/sha256/*"))
	require.NoError(t, err)
	assert.Len(t, blobs, 8, "an index, two manifests, two configurations, a layer of both and one of each")
	for _, blob := range blobs {
		content, err := os.ReadFile(blob)
		require.NoError(t, err)
		assert.Equal(t, filepath.Base(blob), fmt.Sprintf("%x", sha256.Sum256(content)))
	}
	// The validation finds a layer that is missing.
	largest := slices.MaxFunc(blobs, func(a, b string) int { return int(size(t, a) - size(t, b)) })
	require.NoError(t, os.Remove(largest))
	assert.Error(t, validate.Index(read()))
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	return info.Size()
}

func requireImage(t *testing.T, of v1.Image, platform *v1.Platform) {
	t.Helper()
	config, err := of.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, platform.OS, config.OS)
	assert.Equal(t, platform.Architecture, config.Architecture)
	assert.True(t, commit.Equal(config.Created.Time))
	assert.Equal(t, v1.Config{
		User: "65532:65532", Entrypoint: []string{"/toy"}, WorkingDir: "/",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "toy",
			"org.opencontainers.image.description": "A toy",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.source":      "https://github.com/bellwether-k8s/bellwether",
			"org.opencontainers.image.revision":    "0123abc",
			"org.opencontainers.image.created":     "2026-01-02T02:04:05Z",
		},
	}, config.Config)
	files := files(t, of)
	assert.Equal(t, "root:x:0:0::/:/\nnonroot:x:65532:65532::/:/\n", files["etc/passwd"])
	names := slices.Sorted(maps.Keys(files))
	assert.Equal(t, []string{"etc", "etc/group", "etc/passwd", "sbom.spdx.json", "tmp", "toy"}, names)
	program, err := elf.NewFile(bytes.NewReader([]byte(files["toy"])))
	require.NoError(t, err)
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	assert.Equal(t, machines[platform.Architecture], program.Machine)
	libraries, err := program.ImportedLibraries()
	require.NoError(t, err)
	assert.Empty(t, libraries, "the program is not static")
	requireModules(t, files["sbom.spdx.json"], "example.com/toy 0123abc", "example.com/part 0123abc")
}

// files are those of an image.
func files(t *testing.T, of v1.Image) map[string]string {
	t.Helper()
	content := mutate.Extract(of)
	defer func() { require.NoError(t, content.Close()) }()
	all := map[string]string{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		assert.Zero(t, header.Uid+header.Gid, header.Name)
		assert.Equal(t, int64(0), header.ModTime.Unix(), header.Name)
		text, err := io.ReadAll(archive)
		require.NoError(t, err)
		all[header.Name] = string(text)
	}
}

// requireModules requires that a list of modules has these, the first of them as what it is about.
func requireModules(t *testing.T, list string, want ...string) {
	t.Helper()
	var d struct {
		SpdxVersion, DocumentNamespace string
		Packages                       []struct{ SPDXID, Name, VersionInfo string }
		Relationships                  []struct{ SpdxElementID, RelatedSpdxElement, RelationshipType string }
	}
	require.NoError(t, json.Unmarshal([]byte(list), &d), list)
	assert.Equal(t, "SPDX-2.3", d.SpdxVersion)
	assert.NotEmpty(t, d.DocumentNamespace)
	names := map[string]string{}
	var all []string
	for _, p := range d.Packages {
		all, names[p.SPDXID] = append(all, p.Name+" "+p.VersionInfo), p.Name+" "+p.VersionInfo
	}
	assert.Subset(t, all, want)
	related := map[string]string{}
	for _, r := range d.Relationships {
		related[names[r.RelatedSpdxElement]] = r.RelationshipType
	}
	assert.Equal(t, "DESCRIBES", related[want[0]])
	for _, module := range want[1:] {
		assert.Equal(t, "DEPENDS_ON", related[module])
	}
	assert.Len(t, related, len(all), "each is related")
}

func TestAFailedBuildSaysWhy(t *testing.T) {
	from := repository(t, "hello")
	require.NoError(t, os.WriteFile(filepath.Join(from.Root, "part/part.go"), []byte("package part\n"), 0o600))
	_, err := image.Build(t.Context(), from, toy, image.Platforms...)
	require.ErrorContains(t, err, "image: toy for linux/amd64: go build: ")
	assert.ErrorContains(t, err, "undefined: part.Says")
}
