// Package fencejobs_test runs agents as Jobs of a real control plane, and switches a real BMC with
// them.
package fencejobs_test

import (
	"context"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
	"github.com/bellwether-k8s/bellwether/internal/e2e/lab"
)

// shared is the control plane of all tests. Its nodes are made by the tests, which are their
// kubelets.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	lab.Main()
	e2e.Main(m, &shared, e2e.Options{ControllerManager: true, Scheduler: true}, func(c *e2e.ControlPlane) error {
		return c.Apply(context.Background(), "../../../fencing/v1alpha1/fencing.bellwether.dev_nodefences.yaml")
	})
}
