package nodeconfig_test

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeconfig"
)

// A type of nodes, each with a BMC of its own. The controller passes what its informers hold.
func Example() {
	namespace := nodeconfig.Namespace{
		ConfigMaps: map[string]map[string]string{
			"fence-config-type-compute": {
				"config.properties": `node_name=[NODE_NAME]
isolation=mark-unschedulable
power_management=bmc-off bmc-on
recovery=mark-schedulable`,
				"fence-method-bmc-off": `template=fence-method-template-ipmi
ip=bmc-{{.NodeName}}.example
action=off`,
				"fence-method-bmc-on": `template=fence-method-template-ipmi
ip=bmc-{{.NodeName}}.example
action=on`,
			},
			"fence-method-template-ipmi": {
				"template.properties": `agent_name=fence_ipmilan
username=fencer
password.secret=bmc/password
lanplus=1`,
			},
		},
		SecretKeys: func(name string) ([]string, error) {
			if name != "bmc" {
				return nil, fs.ErrNotExist
			}
			return []string{"password"}, nil
		},
		Agent: func(name string) (agent.Metadata, error) {
			if name != "fence_ipmilan" {
				return agent.Metadata{}, fs.ErrNotExist
			}
			return agent.Metadata{Parameters: []agent.ParameterSpec{
				{Name: "ip", Obsoletes: []string{"ipaddr"}},
				{Name: "username"},
				{Name: "password"},
				{Name: "lanplus", Type: agent.TypeBoolean},
			}}, nil
		},
	}
	nodes := []nodeconfig.Node{{Name: "w1", Type: "compute"}, {Name: "w2", Type: "compute"}}

	plan, err := nodeconfig.Resolve(namespace, nodes).Plan("w1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, method := range plan.PowerManagement[0] {
		fmt.Println(method.Name, method.Action, method.Device.Key)
		fmt.Println(" ", method.Device.Arguments)
	}

	namespace.ConfigMaps["fence-method-template-ipmi"]["template.properties"] += "\nlanplsu=1\ncipher"
	_, err = nodeconfig.Resolve(namespace, nodes).Plan("w1")
	fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n  "))
	// Output:
	// bmc-off off fence_ipmilan/bmc-w1.example/
	//   [{ip bmc-w1.example} {lanplus 1} {password secret bmc/password} {username fencer}]
	// bmc-on on fence_ipmilan/bmc-w1.example/
	//   [{ip bmc-w1.example} {lanplus 1} {password secret bmc/password} {username fencer}]
	// fence-method-template-ipmi/template.properties:6:
	//   line must be key=value, a comment or empty (got "6 bytes without =")
	// fence-method-template-ipmi/template.properties:5:
	//   agent fence_ipmilan has no such parameter; did you mean lanplus? (got "lanplsu")
}

// What an agent gets on its standard input.
func ExampleFormat() {
	for _, parameter := range [][2]string{
		{"action", "off"}, {"plug", "5"}, {"password", `"in quotes"`}, {"plug", "5\naction=on"},
	} {
		line, err := nodeconfig.Format(parameter[0], parameter[1])
		if err != nil {
			fmt.Println(err)
		}
		fmt.Print(line)
	}
	// Output:
	// action=off
	// plug=5
	// password=""in quotes""
	// config: plug: must be plain UTF-8 text (got control character U+000A at byte 7)
}
