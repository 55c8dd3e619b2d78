package endpoints_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// shared is the control plane of every test that does not break it. It mirrors Endpoints and
// collects garbage.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	var err error
	if shared, err = e2e.New(context.Background(),
		e2e.Options{ControllerManager: true, Scheduler: true, Nodes: []string{"node"}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if code == 0 {
		err = shared.Close()
	} else {
		err = fmt.Errorf("logs of the shared control plane: %s", shared.Dir) // its processes end with this one
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
