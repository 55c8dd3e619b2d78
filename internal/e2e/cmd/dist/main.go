// Command dist writes what a version has to download: archives of the commands with checksums and lists
// of their modules, and the manifest of the plugin for krew. See RELEASING.md.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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
	if err == nil && from.Version == "" {
		err = errors.New("-version must be set")
	}
	if err != nil {
		return fmt.Errorf("dist: %w", err)
	}
	var all []image.Download
	// One after the other, because the go command uses all processors, and all programs of a platform, because
	// they share packages.
	for _, platform := range image.DownloadPlatforms {
		for _, p := range image.Commands() {
			d, err := image.NewDownload(ctx, from, p, platform)
			if err != nil {
				return err
			}
			fmt.Printf("%x  %s\n", sha256.Sum256(d.Archive), d.Name)
			all = append(all, d)
		}
	}
	return image.WriteDownloads(output, from, all)
}
