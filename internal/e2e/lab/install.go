package lab

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

// Programs that a lab and the agents for its devices execute, and the Debian packages that they are
// in.
var programs = []struct{ name, pkg string }{
	{"fence_ipmilan", "fence-agents"},
	{"ipmi_sim", "openipmi"},
	{"ipmitool", "ipmitool"},
	{"snmpd", "snmpd"},
	{"snmpget", "snmp"},
	{"telnet", "telnet"},
}

// optOutEnv, set to 0, is the wish to do without a lab.
const optOutEnv = "BELLWETHER_LAB"

// OptedOut says that the user wants no tests with a lab: BELLWETHER_LAB is 0.
func OptedOut() bool { return os.Getenv(optOutEnv) == "0" }

// Missing is an error that names the packages that are needed and not installed; nil if none is.
func Missing() error {
	if missing := missing(); len(missing) > 0 {
		return fmt.Errorf("lab: these Debian packages are missing: %[1]s (apt-get install --no-install-recommends "+
			"%[1]s)", strings.Join(missing, " "))
	}
	return nil
}

func missing() []string {
	var packages []string
	for _, program := range programs {
		if _, err := find(program.name); err != nil {
			packages = append(packages, program.pkg)
		}
	}
	return packages
}

// find looks for a program, also where only root looks by default.
func find(program string) (string, error) {
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
func Install(ctx context.Context, progress io.Writer) error {
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%w; this takes root and apt-get", Missing())
	}
	fmt.Fprintf(progress, "installing %s, once: a minute or two\n", strings.Join(packages, " "))
	install := slices.Concat([]string{"install", "-y", "--no-install-recommends"}, packages)
	for _, arguments := range [][]string{{"update"}, install} {
		command := exec.CommandContext(ctx, "apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		// An interrupted apt-get leaves no lock and no half package.
		command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("lab: apt-get %s: %w\n%s\n%w", arguments[0], errors.Join(err, ctx.Err()), output,
				Missing())
		}
	}
	return Missing()
}
