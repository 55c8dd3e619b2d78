package endpoints_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// exampleProgram is a program that users copy.
const exampleProgram = "github.com/bellwether-k8s/bellwether/examples/endpoints"

// shared is the control plane of every test that does not break it. It mirrors Endpoints and
// collects garbage.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	e2e.Main(m, &shared, e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{"node"}},
		e2e.Built(e2e.Race(), "./replica", exampleProgram))
}
