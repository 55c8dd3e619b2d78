//go:build linux

package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
	"github.com/bellwether-k8s/bellwether/internal/e2e/kuberay"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

const (
	rayRepository = "github.com/ray-project/kuberay//ray-operator" // as kustomize writes it
	root          = "../../../.."
)

var (
	cluster     *realnode.Cluster
	unpublished error // why there is no operator
)

func TestMain(m *testing.M) {
	realnode.Boot()
	options, err := prepare(context.Background())
	switch {
	case errors.Is(err, e2e.ErrNotPublished):
		unpublished = err
		os.Exit(m.Run())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	realnode.Main(m, &cluster, options)
}

// prepare returns the options of the cluster. Outside of the sandbox, it builds the operator; in there, where there
// is no network, the operator is found, and becomes an image.
func prepare(ctx context.Context) (realnode.Options, error) {
	options := realnode.Options{Nodes: []string{"n1", "n2"}}
	if realnode.Missing() != nil {
		return options, nil
	}
	program, err := e2e.Published(ctx, os.Stderr, kuberay.Module, kuberay.Version, "")
	if err != nil || !realnode.Inside() {
		return options, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return options, err
	}
	here := v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}
	operator, err := image.New(image.Config{ // as by its Dockerfile
		Platform:   here,
		Layers:     [][]image.File{{image.Tmp, {Name: "manager", Mode: 0o755, Content: content}}},
		Entrypoint: []string{"/manager"},
		User:       "65532:65532",
	})
	if err != nil {
		return options, err
	}
	programs := image.Programs()
	i := slices.IndexFunc(programs, func(p image.Program) bool { return p.Image == "bellwether" })
	built, err := image.Build(ctx, image.Source{Root: root}, programs[i], here)
	if err != nil {
		return options, err
	}
	options.Archive = filepath.Join(os.TempDir(), "images.tar")
	return options, image.WriteArchive(options.Archive, map[string]v1.Image{
		"quay.io/kuberay/operator:" + kuberay.Version: operator,
		programs[i].Reference():                       built.Images[0],
	})
}
