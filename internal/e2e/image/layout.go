package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// WriteLayout writes images as an OCI layout into a new directory. Each has its name as a reference.
func WriteLayout(directory string, all []Built) error {
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("image: write images: %s exists, or cannot be read: %w", directory, err)
	}
	path, err := layout.Write(directory, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return fmt.Errorf("image: write images: %w", err)
	}
	for _, b := range all {
		reference := map[string]string{"org.opencontainers.image.ref.name": b.Image}
		if err := path.AppendIndex(b.Index, layout.WithAnnotations(reference)); err != nil {
			return fmt.Errorf("image: write image %s: %w", b.Image, err)
		}
	}
	return nil
}

// WriteSBOMs writes the lists of modules as files: they are also in the images.
func WriteSBOMs(directory string, all []Built) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("image: write lists of modules: %w", err)
	}
	for _, b := range all {
		for i, bill := range b.SBOMs {
			file := fmt.Sprintf("%s-%s.spdx.json", b.Image, Platforms[i].Architecture)
			if err := os.WriteFile(filepath.Join(directory, file), bill, 0o644); err != nil {
				return fmt.Errorf("image: write lists of modules: %w", err)
			}
		}
	}
	return nil
}

// WriteArchive writes images of one platform, by their names, as containerd and Docker load them.
func WriteArchive(file string, images map[string]v1.Image) error {
	references := map[name.Reference]v1.Image{}
	for image, content := range images {
		tag, err := name.NewTag(image)
		if err != nil {
			return fmt.Errorf("image: write archive: %s: %w", image, err)
		}
		references[tag] = content
	}
	content, err := inOrder(references)
	if err == nil {
		err = os.WriteFile(file, content, 0o644)
	}
	if err != nil {
		return fmt.Errorf("image: write archive: %w", err)
	}
	return nil
}

// inOrder returns the archive of images with its files in the order of their names. The library has them in any order.
func inOrder(images map[name.Reference]v1.Image) ([]byte, error) {
	var written bytes.Buffer
	if err := tarball.MultiRefWrite(images, &written); err != nil {
		return nil, err
	}
	var files []File
	for read := tar.NewReader(&written); ; {
		header, err := read.Next()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
			return archive(files)
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(read)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: header.Name, Mode: header.Mode, Content: content})
	}
}
