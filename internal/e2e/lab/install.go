package lab

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/bellwether-k8s/bellwether/internal/e2e/debian"
)

// programs are what a lab and the agents for its devices execute.
var programs = debian.Programs{
	{Name: "fence_ipmilan", Package: "fence-agents"},
	{Name: "ipmi_sim", Package: "openipmi"},
	{Name: "ipmitool", Package: "ipmitool"},
	{Name: "snmpd", Package: "snmpd"},
	{Name: "snmpget", Package: "snmp"},
	{Name: "telnet", Package: "telnet"},
}

// optOutEnv, set to 0, is the wish to do without a lab.
const optOutEnv = "BELLWETHER_LAB"

// OptedOut says that the user wants no tests with a lab: BELLWETHER_LAB is 0.
func OptedOut() bool { return os.Getenv(optOutEnv) == "0" }

// Missing is an error that names the packages that are needed and not installed; nil if none is.
func Missing() error {
	if err := programs.Missing(); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// Install installs the packages that are missing with apt-get, and reports to progress. Where it
// may not, or cannot, the error names them.
func Install(ctx context.Context, progress io.Writer) error {
	if err := programs.Install(ctx, progress); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}
