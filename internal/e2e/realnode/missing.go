package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bellwether-k8s/bellwether/internal/e2e/debian"
)

// networkPlugins is where the Debian package has them.
const networkPlugins = "/usr/lib/cni"

// programs are what nodes execute besides Kubernetes.
var programs = debian.Programs{
	{Name: "containerd", Package: "containerd"},
	{Name: "runc", Package: "runc"},
	{Name: "ip", Package: "iproute2"},
	{Name: "nft", Package: "nftables"},
	{Name: filepath.Join(networkPlugins, "ptp"), Package: "containernetworking-plugins"},
}

// Missing is why this machine cannot have real nodes; nil: it can.
func Missing() error {
	if err := unfit(); err != nil {
		return err
	}
	if err := programs.Missing(); err != nil {
		return fmt.Errorf("realnode: %w", err)
	}
	return nil
}

// Install installs the packages that are missing, where the machine can have real nodes, and reports
// to progress.
func Install(ctx context.Context, progress io.Writer) error {
	if err := unfit(); err != nil {
		return err
	}
	if err := programs.Install(ctx, progress); err != nil {
		return fmt.Errorf("realnode: %w", err)
	}
	return nil
}

// unfit is why no package makes this machine fit for real nodes.
func unfit() error {
	switch content, err := os.ReadFile("/proc/self/cgroup"); {
	case runtime.GOOS != "linux":
		return errors.New("realnode: nodes take Linux")
	case os.Geteuid() != 0:
		return errors.New("realnode: nodes take root")
	case err != nil:
		return fmt.Errorf("realnode: %w", err)
	case !strings.Contains(string(content), ":memory:") || !strings.Contains(string(content), ":freezer:"):
		return errors.New("realnode: nodes take control groups of version 1, and this machine has others")
	}
	return nil
}
