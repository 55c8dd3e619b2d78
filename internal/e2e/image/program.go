package image

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Platforms are those that images are made for.
var Platforms = []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}

// Program is a main package that an image is made of.
type Program struct {
	// Image is the name of the image.
	Image string
	// Directory has the package, from the root of the repository.
	Directory string
	// File is the program in the root directory of the image.
	File string
	// Description is one line.
	Description string
}

// Source says what is built.
type Source struct {
	// Root is the root directory of the repository.
	Root string
	// Version is what the commit is released as. Empty: it is not.
	Version string
	// Revision and Created are those of the commit.
	Revision string
	Created  time.Time
}

const (
	// user is not root, by its number: Kubernetes cannot see that a name is not root's.
	user = "65532:65532"

	source   = "https://github.com/bellwether-k8s/bellwether"
	sbomFile = "sbom.spdx.json"
)

// Built is an image for several platforms.
type Built struct {
	Program
	Index v1.ImageIndex
	// Images and SBOMs are in the order of the platforms.
	Images []v1.Image
	SBOMs  [][]byte
}

// Build builds a program for these platforms. The same source gives the same digests in any
// directory, with one version of Go.
func Build(ctx context.Context, from Source, p Program, platforms ...v1.Platform) (Built, error) {
	b := Built{Program: p, Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	for _, platform := range platforms {
		program, err := compile(ctx, filepath.Join(from.Root, p.Directory), platform)
		if err != nil {
			return Built{}, fmt.Errorf("image: %s for %s: %w", p.Image, platform.String(), err)
		}
		info, err := buildinfo.Read(bytes.NewReader(program))
		if err != nil {
			return Built{}, fmt.Errorf("image: %s for %s: %w", p.Image, platform.String(), err)
		}
		bill, err := SBOM(from, p.Image+"-"+platform.Architecture, program, info)
		if err != nil {
			return Built{}, err
		}
		image, err := New(Config{
			Platform: platform, User: user, Entrypoint: []string{"/" + p.File}, Labels: p.labels(from),
			Created: from.Created,
			Layers: [][]File{
				{
					{Name: "etc/", Mode: 0o755},
					{Name: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
					{Name: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0::/:/\nnonroot:x:65532:65532::/:/\n")},
					Tmp,
				},
				{{Name: p.File, Mode: 0o755, Content: program}, {Name: sbomFile, Mode: 0o644, Content: bill}},
			},
		})
		if err != nil {
			return Built{}, err
		}
		b.Images, b.SBOMs = append(b.Images, image), append(b.SBOMs, bill)
		b.Index = mutate.AppendManifests(b.Index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &platform},
		})
	}
	b.Index = mutate.Annotations(b.Index, p.labels(from)).(v1.ImageIndex)
	return b, nil
}

func (p Program) labels(from Source) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       p.Image,
		"org.opencontainers.image.description": p.Description,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.revision":    from.Revision,
		"org.opencontainers.image.created":     from.Created.UTC().Format(time.RFC3339),
	}
	if from.Version != "" {
		labels["org.opencontainers.image.version"] = from.Version
	}
	return labels
}

// compile returns a static program without paths, times or versions of this machine in it.
func compile(ctx context.Context, directory string, platform v1.Platform) (program []byte, err error) {
	built, err := os.MkdirTemp("", "bellwether-image-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(built)) }()
	file := filepath.Join(built, "program")
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=",
		"-o", file, ".")
	command.Dir = directory
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+platform.OS, "GOARCH="+platform.Architecture,
		"GOFLAGS=", "GOWORK=", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	// An interrupted go command ends its compilers; a killed one would leave them running.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", errors.Join(err, ctx.Err()), bytes.TrimSpace(output))
	}
	return os.ReadFile(file)
}
