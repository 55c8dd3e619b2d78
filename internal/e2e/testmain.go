package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is a TestMain. It prepares a control plane, runs the tests that share it, and then checks
// for leaked goroutines. If a test fails, the logs stay.
func Main(m *testing.M, shared **ControlPlane, options Options, prepare ...func(*ControlPlane) error) {
	code, err := runTests(m, shared, options, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Built prepares programs for [ControlPlane.Program], because compilers and linkers beside tests have
// replicas lose their Leases.
func Built(flags []string, packages ...string) func(*ControlPlane) error {
	return func(cp *ControlPlane) error {
		for _, pkg := range packages {
			//nolint:forbidigo // TestMain is where contexts begin
			if _, err := cp.Program(context.Background(), pkg, flags...); err != nil {
				return err
			}
		}
		return nil
	}
}

func runTests(m *testing.M, shared **ControlPlane, options Options, prepare []func(*ControlPlane) error) (int, error) {
	cp, err := New(context.Background(), options) //nolint:forbidigo // TestMain is where contexts begin
	if err != nil {
		return 1, err
	}
	*shared = cp
	for _, f := range prepare {
		if err := f(cp); err != nil {
			return 1, err
		}
	}
	if code := m.Run(); code != 0 {
		return code, fmt.Errorf("logs of the shared control plane: %s", cp.Dir) // its processes end with this one
	}
	if err := cp.Close(); err != nil {
		return 1, err
	}
	return 0, goleak.Find()
}
