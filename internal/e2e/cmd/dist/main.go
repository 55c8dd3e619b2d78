// Command dist writes what a version has to download: archives of the commands with checksums and lists
// of their modules, and the manifest of the plugin for krew. See RELEASING.md.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	from := image.Source{}
	flag.StringVar(&from.Root, "root", "../..", "root of the repository")
	flag.StringVar(&from.Version, "version", "", "version that is built, such as v0.1.0")
	flag.StringVar(&from.Revision, "revision", "", "commit that is built")
	created := flag.String("created", "", "time of the commit, as in RFC 3339")
	output := flag.String("output", "", "directory to write to")
	flag.Parse()
	if *output == "" || from.Version == "" || from.Revision == "" || flag.NArg() > 0 {
		return errors.New("dist: -output, -version and -revision must be set, and there are no other arguments")
	}
	var err error
	if from.Created, err = time.Parse(time.RFC3339, *created); err != nil {
		return fmt.Errorf("dist: -created: %w", err)
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
	return image.WriteDownloads(*output, from, all)
}
