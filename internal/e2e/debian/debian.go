// Package debian installs programs that tests execute and that Debian has packages of.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Programs are programs, and the packages that they are in.
type Programs []struct{ Name, Package string }

// Missing is an error that names the packages that are needed and not installed; nil if none is.
func (p Programs) Missing() error {
	if missing := p.missing(); len(missing) > 0 {
		return fmt.Errorf("these Debian packages are missing: %[1]s (apt-get install --no-install-recommends %[1]s)",
			strings.Join(missing, " "))
	}
	return nil
}

func (p Programs) missing() []string {
	var packages []string
	for _, program := range p {
		if _, err := Find(program.Name); err != nil {
			packages = append(packages, program.Package)
		}
	}
	return packages
}

// Find looks for a program, also where only root looks by default.
func Find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		if path, sbinErr := exec.LookPath(filepath.Join("/usr/sbin", program)); sbinErr == nil {
			return path, nil
		}
	}
	return path, err
}

// Install installs the packages that are missing with apt-get, and reports to progress. Where it
// may not, or cannot, the error names them.
func (p Programs) Install(ctx context.Context, progress io.Writer) error {
	packages := p.missing()
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%w; this takes root and apt-get", p.Missing())
	}
	fmt.Fprintf(progress, "installing %s, once: a minute or two\n", strings.Join(packages, " "))
	install := slices.Concat([]string{"install", "-y", "--no-install-recommends"}, packages)
	for _, arguments := range [][]string{{"update"}, install} {
		command := exec.CommandContext(ctx, "apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		// An interrupted apt-get leaves no lock and no half package.
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s\n%w", arguments[0], errors.Join(err, ctx.Err()), output, p.Missing())
		}
	}
	return p.Missing()
}
