package nodeconfig_test

import (
	"fmt"
	"testing"

	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// All nodes of a large cluster, with a BMC each. Every hundredth has an object of its own.
func BenchmarkResolve(b *testing.B) {
	objects := map[string]map[string]string{
		"fence-method-template-ipmi": {
			"template.properties": "agent_name=fence_ipmilan\nusername=fencer\npassword.secret=bmc/password\n" +
				"lanplus=1",
		},
		"fence-config-type-t": {
			"config.properties": "node_name=[NODE_NAME]\nisolation=mark-unschedulable\npower_management=bmc\n" +
				"recovery=mark-schedulable",
			"fence-method-bmc": "template=fence-method-template-ipmi\nip=bmc-{{.NodeName}}.example\naction=reboot",
		},
	}
	var nodes []nodeconfig.Node
	for i := range 5000 {
		node := nodeconfig.Node{Name: fmt.Sprintf("node-%d", i), Type: "t"}
		if i%100 == 0 {
			objects["fence-config-node-"+node.Name] = objects["fence-config-type-t"]
		}
		nodes = append(nodes, node)
	}
	for b.Loop() {
		if err := nodeconfig.Resolve(namespace(objects), nodes).Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
