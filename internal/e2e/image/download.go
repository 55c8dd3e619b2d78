package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// DownloadPlatforms are those that archives are made for.
var DownloadPlatforms = []v1.Platform{
	{OS: "linux", Architecture: "amd64"},
	{OS: "linux", Architecture: "arm64"},
	{OS: "darwin", Architecture: "amd64"},
	{OS: "darwin", Architecture: "arm64"},
}

// plugin is the file of the plugin of kubectl.
const plugin = "kubectl-bellwether"

// Commands returns those that a version has archives of.
func Commands() []Program {
	return []Program{
		{File: "bellwether", Directory: "cmd/bellwether"},
		{File: plugin, Directory: "cmd/kubectl-bellwether"},
	}
}

// Download is an archive of a program for one platform.
type Download struct {
	Program
	Platform v1.Platform
	// Name is that of the archive, with the version and the platform in it.
	Name string
	// Archive is a gzipped tar file with the program and the license.
	Archive []byte
	// SBOM is the list of the program's modules.
	SBOM []byte
}

// NewDownload builds a program and makes its archive. The same source gives the same bytes in any
// directory, with one version of Go.
func NewDownload(ctx context.Context, from Source, p Program, platform v1.Platform) (Download, error) {
	fail := func(err error) (Download, error) {
		return Download{}, fmt.Errorf("image: %s for %s: %w", p.File, platform.String(), err)
	}
	if from.Version == "" {
		return fail(errors.New("an archive needs a version"))
	}
	license, err := os.ReadFile(filepath.Join(from.Root, "LICENSE"))
	if err != nil {
		return fail(err)
	}
	program, err := compile(ctx, filepath.Join(from.Root, p.Directory), platform)
	if err != nil {
		return fail(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return fail(err)
	}
	name := strings.Join([]string{p.File, from.Version, platform.OS, platform.Architecture}, "_")
	bill, err := SBOM(from, name, program, info)
	if err != nil {
		return Download{}, err
	}
	content, err := archive([]File{
		{Name: p.File, Mode: 0o755, Content: program}, {Name: "LICENSE", Mode: 0o644, Content: license},
	})
	if err != nil {
		return fail(err)
	}
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed) // without a name or a time in its header
	if _, err := writer.Write(content); err != nil {
		return fail(err)
	}
	if err := writer.Close(); err != nil {
		return fail(err)
	}
	return Download{p, platform, name + ".tar.gz", compressed.Bytes(), bill}, nil
}

// WriteDownloads writes archives and lists of modules, their checksums in SHA256SUMS, and the manifest of
// the plugin for krew.
func WriteDownloads(directory string, from Source, all []Download) error {
	files := map[string][]byte{"bellwether.yaml": krewManifest(from.Version, all)}
	var sums strings.Builder
	for _, d := range all {
		bill := strings.TrimSuffix(d.Name, ".tar.gz") + ".spdx.json"
		files[d.Name], files[bill] = d.Archive, d.SBOM
		fmt.Fprintf(&sums, "%x  %s\n%x  %s\n", sha256.Sum256(d.Archive), d.Name, sha256.Sum256(d.SBOM), bill)
	}
	files["SHA256SUMS"] = []byte(sums.String())
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("image: write archives: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			return fmt.Errorf("image: write archives: %w", err)
		}
	}
	return nil
}

// krewManifest is what krew, the plugin manager of kubectl, installs the plugin by.
func krewManifest(version string, all []Download) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: bellwether
spec:
  version: %s
  homepage: %s
  shortDescription: Show elections, rings of shards, endpoints and fences
  description: |
    Shows what Bellwether does in a cluster: which replica leads and since when,
    which shard owns an object and why, which endpoints are published, and what
    the fence of a lost node waits for. It needs nothing in the cluster.
  platforms:
`, version, source)
	for _, d := range all {
		if d.File != plugin {
			continue
		}
		fmt.Fprintf(&text, `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s/releases/download/%s/%s
    sha256: %x
    bin: %s
`, d.Platform.OS, d.Platform.Architecture, source, version, d.Name, sha256.Sum256(d.Archive), d.File)
	}
	return text.Bytes()
}
