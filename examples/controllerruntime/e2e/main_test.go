package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of all tests.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	ctrl.SetLogger(zapr.NewLogger(zap.NewNop()))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	cp, err := e2e.New(context.Background(), e2e.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared = cp
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, "logs of the control plane:", cp.Dir) // its processes end with this one
		return code
	}
	if err := cp.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
