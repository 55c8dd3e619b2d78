package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	// Module is the path of this module.
	Module = "github.com/bellwether-k8s/bellwether/internal/e2e"

	// kubernetesVersion is where Kubernetes keeps the version it reports. Without it /version says
	// v0.0.0-master.
	kubernetesVersion = "k8s.io/component-base/version."
)

// ownModule has a go command follow the go.mod of the directory that it runs in, whatever GOFLAGS
// says for this module.
const ownModule = "-modfile=go.mod"

// buildFlags are part of the cache key. -trimpath lets checkouts in different directories share the
// Go build cache.
var buildFlags = []string{"-trimpath", "-buildvcs=false"}

// Bin has the paths of the programs of a control plane.
type Bin struct {
	// ControlPlane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and
	// kube-proxy: the first argument names the component, the rest are its flags.
	ControlPlane string
	// KWOK plays the kubelets of simulated nodes.
	KWOK string
}

// Binaries returns the programs of a control plane, built once per version of their sources and of
// Go and kept in bellwether/controlplane in the user's cache directory (safe to delete at any
// time). The first call on a machine takes minutes and reports on progress, which must not be nil;
// later ones take the time of a `go list` and print nothing. Concurrent calls, also of other
// processes, wait for one build. A build that is cancelled or killed leaves nothing that a later
// call would take for its result.
func Binaries(ctx context.Context, progress io.Writer) (Bin, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return Bin{}, fmt.Errorf("e2e: find the control plane's sources: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Bin{}, fmt.Errorf("e2e: %w", err)
	}
	cache = filepath.Join(cache, "bellwether", "controlplane")
	bin, err := binaries(ctx, source, cache, progress)
	if version := os.Getenv(ServerVariable); err == nil && version != "" {
		bin.ControlPlane, err = serverOf(ctx, version, source, cache, progress)
	}
	return bin, err
}

func binaries(ctx context.Context, source, cache string, progress io.Writer) (Bin, error) {
	hash, err := sourceHash(source)
	if err != nil {
		return Bin{}, fmt.Errorf("e2e: hash the control plane's sources: %w", err)
	}
	dir := filepath.Join(cache, hash)
	bin := Bin{ControlPlane: filepath.Join(dir, "controlplane"), KWOK: filepath.Join(dir, "kwok")}
	return bin, once(ctx, dir, progress, func(temporary string) error {
		return build(ctx, source, temporary, dir, progress)
	})
}

// once has build fill a directory beside dir, unless dir exists, and renames it. So dir is complete or
// absent.
func once(ctx context.Context, dir string, progress io.Writer, build func(temporary string) error) error {
	if exists(dir) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("e2e: %w", err)
	}
	unlock, err := lockFile(ctx, dir+".lock", func(waited time.Duration) {
		say(progress, "waiting for another process that builds the control plane (%d s)", int(waited.Seconds()))
	})
	if err != nil {
		return fmt.Errorf("e2e: wait for the build of the control plane: %w", err)
	}
	defer unlock()
	if exists(dir) { // built while we waited
		return nil
	}
	temporary := dir + ".tmp"
	if err := os.RemoveAll(temporary); err != nil { // of a build that was killed
		return fmt.Errorf("e2e: %w", err)
	}
	defer os.RemoveAll(temporary)
	if err := build(temporary); err != nil {
		return fmt.Errorf("e2e: build the control plane: %w", err)
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("e2e: %w", err)
	}
	return nil
}

// sourceDir asks the go command where this module is. runtime.Caller would not know: with -trimpath
// it names a path that does not exist.
func sourceDir(ctx context.Context) (string, error) {
	dir, err := goCommand(ctx, "", nil, "list", "-m", "-f", "{{.Dir}}", Module)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "controlplane"), nil
}

// sourceHash covers everything that decides what the build yields.
func sourceHash(source string) (string, error) {
	var files []string
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); name == "go.mod" || name == "go.sum" || filepath.Ext(name) == ".go" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s/%s %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags)
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		name, err := filepath.Rel(source, path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(hash, "%s %d\n", filepath.ToSlash(name), len(content))
		hash.Write(content)
	}
	return fmt.Sprintf("%x", hash.Sum(nil)[:10]), nil
}

// build compiles both programs into a temporary directory that becomes dir.
func build(ctx context.Context, source, temporary, dir string, progress io.Writer) error {
	versions, err := goCommand(ctx, source, []string{"GOWORK=off"}, "list", "-m", ownModule, "-f", "{{.Version}}",
		"k8s.io/kubernetes", "sigs.k8s.io/kwok")
	if err != nil {
		return err
	}
	kubernetes, kwok, _ := strings.Cut(versions, "\n")
	flags, err := linked(kubernetes)
	if err != nil {
		return err
	}
	start := time.Now()
	say(progress, "building etcd, Kubernetes %s with kubelet and kube-proxy, and KWOK %s once, into %s: "+
		"about 5 minutes on 2 cores", kubernetes, kwok, dir)
	stop := every(30*time.Second, func() {
		say(progress, "… still building (%d s)", int(time.Since(start).Seconds()))
	})
	arguments := slices.Concat([]string{"build"}, buildFlags,
		[]string{flags, ownModule, "-o", temporary + "/", "./cmd/..."})
	_, err = goCommand(ctx, source, []string{"GOWORK=off"}, arguments...)
	stop()
	if err != nil {
		return err
	}
	say(progress, "built the control plane in %d s", int(time.Since(start).Seconds()))
	return nil
}

// linked returns the linker's flags for programs that report this version of Kubernetes.
func linked(version string) (string, error) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("version of k8s.io/kubernetes: want vX.Y.Z, got %q", version)
	}
	return fmt.Sprintf("-ldflags=-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s",
		kubernetesVersion, version, parts[0], parts[1]), nil
}

// every calls f at the interval until the function it returns has been called.
func every(interval time.Duration, f func()) (stop func()) {
	ticker := time.NewTicker(interval)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				f()
			case <-end:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(end)
		<-ended
	}
}

func say(progress io.Writer, format string, arguments ...any) {
	fmt.Fprintf(progress, "e2e: "+format+"\n", arguments...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
