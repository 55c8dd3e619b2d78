package e2e_test

import (
	"testing"

	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of all tests.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	ctrl.SetLogger(zapr.NewLogger(zap.NewNop()))
	e2e.Main(m, &shared, e2e.Options{})
}
