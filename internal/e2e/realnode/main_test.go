//go:build linux

package realnode_test

import (
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/e2e/image"
	"github.com/bellwether-k8s/bellwether/internal/e2e/realnode"
)

// nodes are the names of the nodes.
var nodes = []string{"n1", "n2", "n3"}

var cluster *realnode.Cluster

func TestMain(m *testing.M) {
	sharding := realnode.Image{
		Program:   "../../../examples/sharding",
		Arguments: []string{"-journal", "-work-takes=20ms", "-resync=200ms"},
	}
	realnode.Main(m, &cluster, realnode.Options{
		Nodes: nodes, AuditPolicy: auditPolicy,
		Images: map[string]realnode.Image{
			"example-leader:" + image.Version: {Program: "./leader"},
			"example-daemon:" + image.Version: {
				Program:   "../../../examples/leaderelection",
				Arguments: []string{"-work-interval=5ms"},
			},
			"my-daemon:latest": {
				Program: "./daemon",
				More:    map[string]string{"bellwether": "github.com/bellwether-k8s/bellwether/cmd/bellwether"},
			},
			"example-server:" + image.Version:   {Program: "../../../examples/endpoints"},
			"example-sharding:" + image.Version: sharding,
			"example-sharding:v1.5.0":           sharding,
			"example-operator:" + image.Version: {Program: "./operator", Module: "../../../examples/controllerruntime"},
		},
	})
}
