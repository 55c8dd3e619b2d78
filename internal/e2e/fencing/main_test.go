package fencing_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e"
)

// lostNode and goodNode are played by KWOK. Tests that need no kubelet make nodes of their own.
const lostNode, goodNode = "lost", "good"

// spareNode is where pods of labs run when their machine is lost, and fencers.
const spareNode = "spare"

// exampleProgram is a program that users copy.
const exampleProgram = "github.com/bellwether-k8s/bellwether/examples/fencer"

// shared is the control plane of all tests.
var shared *e2e.ControlPlane

func TestMain(m *testing.M) {
	e2e.Main(m, &shared,
		e2e.Options{
			ControllerManager: true, Scheduler: true,
			Nodes: append([]string{lostNode, goodNode, spareNode}, machines...),
		}, e2e.Built(nil, "./replica", exampleProgram))
}
