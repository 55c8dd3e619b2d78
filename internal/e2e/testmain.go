package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is a TestMain: it runs tests that share a control plane, and then looks for goroutines that they have left behind. If a test
// fails, the logs stay.
func Main(m *testing.M, shared **ControlPlane) {
	code, err := runTests(m, shared)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M, shared **ControlPlane) (int, error) {
	cp, err := New(context.Background(), Options{}) //nolint:forbidigo // TestMain is where contexts begin
	if err != nil {
		return 1, err
	}
	*shared = cp
	if code := m.Run(); code != 0 {
		return code, fmt.Errorf("logs of the shared control plane: %s", cp.Dir) // its processes end with this one
	}
	if err := cp.Close(); err != nil {
		return 1, err
	}
	return 0, goleak.Find()
}
