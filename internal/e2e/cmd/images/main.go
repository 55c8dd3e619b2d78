// Command images writes images of all commands and examples as an OCI layout, without a container
// engine. See docs/images.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	from, output, err := image.ParseSource()
	if err != nil {
		return fmt.Errorf("images: %w", err)
	}
	all, err := build(ctx, from, image.Programs())
	if err != nil {
		return err
	}
	return write(output, all)
}

// build builds the programs one after the other: the go command uses all processors.
func build(ctx context.Context, from image.Source, programs []image.Program) ([]image.Built, error) {
	var all []image.Built
	for _, p := range programs {
		b, err := image.Build(ctx, from, p, image.Platforms...)
		if err != nil {
			return nil, err
		}
		digest, err := b.Index.Digest()
		if err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
		fmt.Printf("%-26s %s\n", p.Image, digest)
		all = append(all, b)
	}
	return all, nil
}

// write writes the layout, the lists of modules, and an archive of the images for this machine's
// architecture.
func write(output string, all []image.Built) error {
	if err := image.WriteLayout(filepath.Join(output, "layout"), all); err != nil {
		return err
	}
	if err := image.WriteSBOMs(filepath.Join(output, "sbom"), all); err != nil {
		return err
	}
	for i, platform := range image.Platforms {
		if platform.Architecture != runtime.GOARCH {
			continue
		}
		here := map[string]v1.Image{}
		for _, b := range all {
			here[b.Reference()] = b.Images[i]
		}
		return image.WriteArchive(filepath.Join(output, "images.tar"), here)
	}
	return nil
}
