package run_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// bellwether is what is tested.
const bellwether = "github.com/bellwether-k8s/bellwether/cmd/bellwether"

var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	e2e.Main(m, &shared, e2e.Options{}, e2e.Built(nil, bellwether, "./program"))
}
