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

// buildFlags and buildEnvironment are part of the cache key. They are those of make test, so that
// what it has compiled is not compiled again. They save a quarter of the compilers' time: the linker
// drops what is for debuggers anyway, and garbage collection of compilers costs more than memory.
var (
	buildFlags       = []string{"-buildvcs=false", "-gcflags=all=-dwarf=false"}
	buildEnvironment = []string{"GOWORK=off", "CGO_ENABLED=0", "GOGC=800"}
)

// Bin has the paths of the programs of a control plane.
type Bin struct {
	// ControlPlane is etcd, kube-apiserver, kube-controller-manager and kube-scheduler: the first
	// argument names the component, the rest are its flags.
	ControlPlane string
	// KWOK plays the kubelets of simulated nodes.
	KWOK string
}

// The programs, by the names of their directories in controlplane/cmd.
const (
	controlPlane = "controlplane"
	kwok         = "kwok"
	node         = "node"
)

// Binaries returns the programs of a control plane, built once per version of their sources and of
// Go and kept in bellwether/controlplane in the user's cache directory (safe to delete at any
// time). The first call on a machine takes minutes and reports on progress, which must not be nil;
// later ones take the time of a `go list` and print nothing. Concurrent calls, also of other
// processes, wait for one build. A build that is cancelled or killed leaves nothing that a later
// call would take for its result.
func Binaries(ctx context.Context, progress io.Writer) (Bin, error) {
	b, err := newBuilder(ctx, progress)
	if err != nil {
		return Bin{}, err
	}
	return b.binaries(ctx)
}

// NodeBinary returns the program of real nodes, which is kubelet and kube-proxy: the first argument
// names the component, the rest are its flags. It is built and kept as those of [Binaries] are, but
// only for who asks for it.
func NodeBinary(ctx context.Context, progress io.Writer) (string, error) {
	b, err := newBuilder(ctx, progress)
	if err != nil {
		return "", err
	}
	dir, err := b.programs(ctx, b.version, node)
	return filepath.Join(dir, node), err
}

// builder builds the programs.
type builder struct {
	source   string // directory of their module
	cache    string
	version  string // of Kubernetes; empty: that of the module
	progress io.Writer
}

func newBuilder(ctx context.Context, progress io.Writer) (builder, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return builder{}, fmt.Errorf("e2e: find the control plane's sources: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return builder{}, fmt.Errorf("e2e: %w", err)
	}
	return builder{source, filepath.Join(cache, "bellwether", "controlplane"), os.Getenv(ServerVariable), progress}, nil
}

func (b builder) binaries(ctx context.Context) (Bin, error) {
	if b.version == "" {
		dir, err := b.programs(ctx, "", controlPlane, kwok)
		return Bin{ControlPlane: filepath.Join(dir, controlPlane), KWOK: filepath.Join(dir, kwok)}, err
	}
	server, err := b.programs(ctx, b.version, controlPlane)
	if err != nil {
		return Bin{}, err
	}
	players, err := b.programs(ctx, "", kwok) // KWOK stays
	return Bin{ControlPlane: filepath.Join(server, controlPlane), KWOK: filepath.Join(players, kwok)}, err
}

// programs returns the directory of programs with a version of Kubernetes.
func (b builder) programs(ctx context.Context, version string, names ...string) (string, error) {
	hash, err := sourceHash(b.source)
	if err != nil {
		return "", fmt.Errorf("e2e: hash the control plane's sources: %w", err)
	}
	key := hash + "-" + strings.Join(names, "-")
	if version != "" {
		key += "-" + version
	}
	dir := filepath.Join(b.cache, key)
	return dir, once(ctx, dir, b.progress, func(temporary string) error {
		return b.build(ctx, version, names, temporary, dir)
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
	fmt.Fprintf(hash, "%s %s/%s %q %q\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, buildFlags, buildEnvironment)
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

// build compiles programs into a temporary directory that becomes dir. An empty version is that of the
// module.
func (b builder) build(ctx context.Context, version string, names []string, temporary, dir string) error {
	module, environment := b.source, buildEnvironment
	var err error
	if version == "" {
		version, err = goCommand(ctx, module, environment,
			"list", "-m", ownModule, "-f", "{{.Version}}", "k8s.io/kubernetes")
	} else {
		environment = append(slices.Clip(environment), "GOFLAGS=-mod=mod")
		module, err = moduleOf(ctx, version, b.source)
		defer os.RemoveAll(module)
	}
	if err != nil {
		return err
	}
	flags, err := linked(version)
	if err != nil {
		return err
	}
	start := time.Now()
	say(b.progress, "building %s with Kubernetes %s once, into %s: some minutes on 2 cores",
		strings.Join(names, " and "), version, dir)
	stop := every(30*time.Second, func() {
		say(b.progress, "… still building (%d s)", int(time.Since(start).Seconds()))
	})
	arguments := slices.Concat([]string{"build"}, buildFlags, []string{flags, ownModule, "-o", temporary + "/"})
	for _, name := range names {
		arguments = append(arguments, "./cmd/"+name)
	}
	_, err = goCommand(ctx, module, environment, arguments...)
	stop()
	if err != nil {
		return err
	}
	say(b.progress, "built them in %d s", int(time.Since(start).Seconds()))
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
