package sharder_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of every test that does not break it.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) { e2e.Main(m, &shared, e2e.Options{}, e2e.Built(e2e.Race(), "./replica")) }
