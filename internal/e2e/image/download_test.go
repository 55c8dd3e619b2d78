package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

// released is the toy's repository as a version, with the license that archives have.
func released(t *testing.T) image.Source {
	t.Helper()
	from := repository(t, "hello")
	from.Version = "v1.2.3"
	require.NoError(t, os.WriteFile(filepath.Join(from.Root, "LICENSE"), []byte("free"), 0o600))
	return from
}

func download(t *testing.T, from image.Source, p image.Program, platform v1.Platform) image.Download {
	t.Helper()
	d, err := image.NewDownload(t.Context(), from, p, platform)
	require.NoError(t, err)
	return d
}

func TestArchivesAreReproducible(t *testing.T) {
	for _, platform := range image.DownloadPlatforms {
		first, second := download(t, released(t), toy, platform), download(t, released(t), toy, platform)
		assert.Equal(t, sha256.Sum256(first.Archive), sha256.Sum256(second.Archive), platform.String())
		assert.Equal(t, string(first.SBOM), string(second.SBOM), platform.String())
	}
}

func TestAnArchiveHasTheProgramAndTheLicense(t *testing.T) {
	d := download(t, released(t), toy, v1.Platform{OS: "darwin", Architecture: "arm64"})
	assert.Equal(t, "toy_v1.2.3_darwin_arm64.tar.gz", d.Name)
	unzipped, err := gzip.NewReader(bytes.NewReader(d.Archive))
	require.NoError(t, err)
	modes := map[string]int64{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		modes[header.Name] = header.Mode
	}
	assert.Equal(t, map[string]int64{"toy": 0o755, "LICENSE": 0o644}, modes)
	requireModules(t, string(d.SBOM), "example.com/toy v1.2.3", "example.com/part v1.2.3")
}

func TestAnArchiveNeedsAVersion(t *testing.T) {
	_, err := image.NewDownload(t.Context(), repository(t, "hello"), toy, image.DownloadPlatforms[0])
	assert.EqualError(t, err, "image: toy for linux/amd64: an archive needs a version")
}

// The manifest names the archives of the plugin, and no other, by the checksums of SHA256SUMS.
func TestTheManifestForKrewHasTheArchives(t *testing.T) {
	plugin := toy
	plugin.File = "kubectl-bellwether"
	from, directory := released(t), t.TempDir()
	var all []image.Download
	for _, platform := range image.DownloadPlatforms[1:3] {
		all = append(all, download(t, from, plugin, platform), download(t, from, toy, platform))
	}
	require.NoError(t, image.WriteDownloads(directory, from, all))
	text, err := os.ReadFile(filepath.Join(directory, "bellwether.yaml"))
	require.NoError(t, err)
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				URI, Sha256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &manifest), "%s", text)
	sums, err := os.ReadFile(filepath.Join(directory, "SHA256SUMS"))
	require.NoError(t, err)
	assert.Equal(t, "bellwether", manifest.Metadata.Name)
	assert.Equal(t, "v1.2.3", manifest.Spec.Version)
	require.Len(t, manifest.Spec.Platforms, 2)
	for i, p := range manifest.Spec.Platforms {
		name := filepath.Base(p.URI)
		content, err := os.ReadFile(filepath.Join(directory, name))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("%x", sha256.Sum256(content)), p.Sha256)
		assert.Contains(t, string(sums), p.Sha256+"  "+name+"\n")
		assert.Equal(t, "kubectl-bellwether", p.Bin)
		assert.Equal(t, image.DownloadPlatforms[1+i].OS, p.Selector.MatchLabels["os"])
		assert.Equal(t, image.DownloadPlatforms[1+i].Architecture, p.Selector.MatchLabels["arch"])
	}
}
