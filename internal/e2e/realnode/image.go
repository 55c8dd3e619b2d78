//go:build linux

package realnode

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

// Image is static programs, and an empty /tmp.
type Image struct {
	// Program is the package of a main program, as seen from the test's directory.
	Program string
	// Module is the directory of the module of Program, as seen from which Program is named then.
	// Empty: the test's module.
	Module string
	// Arguments come before those of the container.
	Arguments []string
	// More are the packages of more programs, by their names in the root directory.
	More map[string]string
}

// writeImages writes an archive of images for containerd. Their programs are paths of files.
func writeImages(path string, images map[string]Image) error {
	archive := map[string]v1.Image{}
	for name, content := range images {
		var err error
		if archive[name], err = content.build(); err != nil {
			return fmt.Errorf("realnode: image %s: %w", name, err)
		}
	}
	if err := image.WriteArchive(path, archive); err != nil {
		return fmt.Errorf("realnode: write images: %w", err)
	}
	return nil
}

func (i Image) build() (v1.Image, error) {
	const entrypoint = "program"
	programs := map[string]string{entrypoint: i.Program}
	maps.Copy(programs, i.More)
	files := []image.File{image.Tmp}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		content, err := os.ReadFile(programs[name])
		if err != nil {
			return nil, err
		}
		files = append(files, image.File{Name: name, Mode: 0o755, Content: content})
	}
	return image.New(image.Config{
		Platform:   v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH},
		Layers:     [][]image.File{files},
		Entrypoint: append([]string{"/" + entrypoint}, i.Arguments...),
	})
}
