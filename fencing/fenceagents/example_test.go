package fenceagents_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing"
	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/fenceagents"
)

// What the controller of package fencing needs of agents.
var _ fencing.Agents = (*fenceagents.Agents)(nil)

func ExampleNew() {
	agents, err := fenceagents.New(fenceagents.Config{})
	if err != nil {
		panic(err)
	}
	power, err := agents.Power(context.Background(), agent.Target{
		Node: "worker-1", Device: "fence_ipmilan/bmc-1.example/", Agent: "fence_none",
		Parameters: agent.NewParameters(map[string]string{
			"ip": "bmc-1.example", "username": "fencer",
			"password": "s3cret", "lanplus": "1",
		}),
	})
	fmt.Println(power)
	before, after, _ := strings.Cut(err.Error(), "; ")
	fmt.Println(before)
	fmt.Println(after)
	// Output:
	// unknown
	// fenceagents: no agent fence_none: stat /usr/sbin/fence_none: no such file or directory
	// needed for the status of node worker-1
}
