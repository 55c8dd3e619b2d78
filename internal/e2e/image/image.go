package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is a file or a directory in an image. All belong to root.
type File struct {
	// Name is from the root directory, without a slash before it. That of a directory ends with one.
	Name    string
	Mode    int64
	Content []byte
}

// Tmp is a directory that programs may write to, unless their container's file system is read-only.
var Tmp = File{Name: "tmp/", Mode: 0o1777}

// Config says what an image consists of.
type Config struct {
	Platform   v1.Platform
	Layers     [][]File
	Entrypoint []string
	User       string
	Labels     map[string]string
	// Created is when the sources were committed, not when the image was built: that would change
	// its digest.
	Created time.Time
}

// New makes an image.
func New(c Config) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, files := range c.Layers {
		layer, err := newLayer(files)
		if err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, fmt.Errorf("image: %w", err)
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = c.Platform.OS, c.Platform.Architecture, c.Platform.Variant
	config.Created = v1.Time{Time: c.Created}
	config.Config = v1.Config{Entrypoint: c.Entrypoint, User: c.User, Labels: c.Labels, WorkingDir: "/"}
	return mutate.ConfigFile(image, config)
}

func newLayer(files []File) (v1.Layer, error) {
	content, err := archive(files)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// archive returns a tar file, without times.
func archive(files []File) ([]byte, error) {
	var content bytes.Buffer
	archive := tar.NewWriter(&content)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: f.Mode, Size: int64(len(f.Content))}
		if f.Name[len(f.Name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}
