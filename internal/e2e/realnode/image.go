//go:build linux

package realnode

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is static programs, and an empty /tmp.
type Image struct {
	// Program is the package of a main program, as seen from the test's directory.
	Program string
	// Arguments come before those of the container.
	Arguments []string
	// More are the packages of more programs, by their names in the root directory.
	More map[string]string
}

// writeImages writes an archive of images for containerd. Their programs are paths of files.
func writeImages(path string, images map[string]Image) error {
	archive := map[name.Reference]v1.Image{}
	for image, content := range images {
		tag, err := name.NewTag(image)
		if err != nil {
			return fmt.Errorf("realnode: image %s: %w", image, err)
		}
		if archive[tag], err = content.build(); err != nil {
			return fmt.Errorf("realnode: image %s: %w", image, err)
		}
	}
	if err := tarball.MultiRefWriteToFile(path, archive); err != nil {
		return fmt.Errorf("realnode: write images: %w", err)
	}
	return nil
}

func (i Image) build() (v1.Image, error) {
	const entrypoint = "program"
	var files bytes.Buffer
	archive := tar.NewWriter(&files)
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	programs := map[string]string{entrypoint: i.Program}
	maps.Copy(programs, i.More)
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		content, err := os.ReadFile(programs[name])
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files.Bytes())), nil
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = runtime.GOOS, runtime.GOARCH
	config.Config.Entrypoint = append([]string{"/" + entrypoint}, i.Arguments...)
	return mutate.ConfigFile(image, config)
}
