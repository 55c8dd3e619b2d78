package nodestate

import "github.com/bellwether-k8s/bellwether/fencing/api"

// Config selects the nodes that may be fenced, and the conditions that start a fence.
type Config = api.NodeSelector

// Condition is a condition of a Node with a status.
type Condition = api.NodeCondition
