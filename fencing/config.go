package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/fencing/api"
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/kube"
)

// Config configures a [Controller]. All candidates for the leadership must have the same Config,
// except for Node and Leadership.
type Config struct {
	// Namespace of the ConfigMaps that set how nodes are fenced, and of the Secrets that they refer
	// to. Required.
	Namespace string

	// Node is the name of the node that this process runs on. The controller never fences it.
	// Required, unless OutsideCluster is set because the process runs on no node of the cluster.
	Node           string
	OutsideCluster bool

	// Leadership limits the controller, which sends no command when no time is left. Use an elector
	// of package leaderelection. Required.
	Leadership Leadership

	// Agents send commands to devices and read them. Required.
	Agents Agents

	// Nodes selects the nodes that may be fenced, and the conditions that start a fence.
	Nodes api.NodeSelector

	// Limits restrict when and how many nodes are fenced.
	Limits api.Limits

	// Storage maps methods of the isolation step that switch a device off to the storage that the
	// node cannot reach after that. Pods that use only this storage are released once the devices
	// of all these methods that the node has are proved to be off. If one has must_success=no and
	// fails, they wait until the machine is off, because it may be another path to the same
	// storage. Name each path, because others are not considered. Default: no storage.
	Storage map[string]api.Storage

	// StorageReachable reports whether this process reaches the storage. It is called before each
	// fence if Limits.RequireStorage is set.
	StorageReachable func(ctx context.Context) bool

	// Dumps opens the port that receives messages from kernels of nodes with kdump=yes, such as
	// kdump.Listen(kdump.DefaultAddress). The port is opened when the first such node is seen, and
	// closed when Run returns. If nil, kdump=yes is an error in the configuration of a node.
	Dumps func() (Dumps, error)

	// Paused returns the reason why no node may be fenced now, such as a maintenance window, or ""
	// if nodes may be fenced. It must not block. If nil, fences are never paused. The ConfigMap
	// fence-paused in Namespace also pauses all fences; its key reason holds the reason.
	Paused func() string

	// RequireCommissioned blocks the fence of a node unless its power devices were commissioned
	// with their present configuration. See [Controller.Commission].
	RequireCommissioned bool

	// OnlyConfigured excludes nodes without a ConfigMap, neither their own nor one of their type,
	// as long as the ConfigMap fence-method-template-cloud does not exist. Otherwise such a node
	// has the condition FenceReady False, and its fence is blocked.
	OnlyConfigured bool

	// TypeLabel is the label of a Node whose value selects the ConfigMap of a type of nodes. A
	// kubelet can set most labels of its own Node, but not those with the prefix
	// node-restriction.kubernetes.io/. Default: type.
	TypeLabel string

	// StrictSecrets rejects configurations that have a password outside of a Secret.
	StrictSecrets bool

	// DetachTimeout is how long a release waits until the pods have ended and their volumes are
	// detached. Default: 1 min.
	DetachTimeout time.Duration

	// RestartDelay is the pause before a failed fence restarts. Default: 30 s.
	RestartDelay time.Duration

	// History is how long the record of a fence is kept after its end. Default: 24 h.
	History time.Duration

	// CheckInterval is how often the devices of a healthy node are read. The nodes are spread over it.
	// Default: 5 min; at least 1 s.
	CheckInterval time.Duration

	// ChecksAtOnce limits how many healthy nodes have their devices read at the same time. Each
	// check needs the memory of one agent: 20 MiB for fence_ipmilan, 65 MiB or more for fence_aws.
	// Default: 4; from 1 to 64.
	ChecksAtOnce int

	// CommandTimeout limits the time of an agent for a command or a reading, unless its template
	// sets command_timeout. Whole seconds. Default: 30 s.
	CommandTimeout time.Duration

	// Hooks are called on events, for metrics and tests.
	Hooks Hooks

	// Events records Kubernetes Events. They regard the NodeFence and are related to the Node;
	// those about the condition FenceReady regard the Node. The managers of controller-runtime also
	// return such a recorder; NewEventRecorderAdapter of k8s.io/client-go/tools/record converts an
	// older one. It must not block, because fences wait for it. If nil, no Events are recorded.
	Events events.EventRecorder

	// Logger gets transitions at level Info, and problems at level Warn. If nil, nothing is logged.
	Logger *zap.Logger
}

// Leadership is the part of an elector that the controller uses. *leaderelection.Elector implements
// it.
type Leadership interface {
	// Remaining returns how long this process may still act as the leader. It returns zero if it
	// may not.
	Remaining() time.Duration
}

// Agents is an [agent.Agent] that describes the parameters of its agents.
type Agents interface {
	agent.Agent
	// Metadata describes an agent. An error that matches fs.ErrNotExist means that the agent does
	// not exist; other errors may be temporary.
	Metadata(ctx context.Context, name string) (agent.Metadata, error)
}

const (
	defaultCheckInterval  = 5 * time.Minute
	defaultCommandTimeout = 30 * time.Second
	defaultChecksAtOnce   = 4
	maxChecksAtOnce       = 64
)

// complete returns c with its defaults, or all errors in it.
func (c Config) complete() (Config, error) {
	var wrong []error
	bad := func(field, rule string, got any) {
		wrong = append(wrong, fmt.Errorf("fencing: %s: %s (got %v)", field, rule, got))
	}
	for _, problem := range kube.NamespaceProblems(c.Namespace) {
		bad("Namespace", problem, fmt.Sprintf("%q", c.Namespace))
	}
	switch problems := validation.IsDNS1123Subdomain(c.Node); {
	case c.OutsideCluster && c.Node != "":
		bad("Node", "must be empty with OutsideCluster", fmt.Sprintf("%q", c.Node))
	case !c.OutsideCluster && len(problems) > 0:
		bad("Node", "must be the name of the node that this process runs on, unless OutsideCluster is set",
			fmt.Sprintf("%q", c.Node))
	}
	if c.Leadership == nil {
		bad("Leadership", "required", nil)
	}
	if c.Agents == nil {
		bad("Agents", "required", nil)
	}
	if _, err := nodestate.New(c.Nodes); err != nil {
		wrong = append(wrong, err)
	}
	if err := c.Limits.Validate(); err != nil {
		wrong = append(wrong, err)
	}
	c.Nodes, c.Limits = c.Nodes.WithDefaults(), c.Limits.WithDefaults()
	if c.TypeLabel == "" {
		c.TypeLabel = "type"
	}
	if problems := validation.IsQualifiedName(c.TypeLabel); len(problems) > 0 {
		bad("TypeLabel", "must be the key of a label", fmt.Sprintf("%q", c.TypeLabel))
	}
	for method, storage := range c.Storage {
		if err := storage.Validate(); err != nil {
			wrong = append(wrong, fmt.Errorf("fencing: Storage[%q]: %w", method, err))
		}
	}
	if c.Limits.RequireStorage && c.StorageReachable == nil {
		bad("StorageReachable", "required with Limits.RequireStorage", nil)
	}
	for _, d := range []struct {
		field     string
		value     *time.Duration
		otherwise time.Duration
		least     time.Duration
	}{
		{"DetachTimeout", &c.DetachTimeout, time.Minute, time.Second},
		{"RestartDelay", &c.RestartDelay, 30 * time.Second, 0},
		{"History", &c.History, 24 * time.Hour, 0},
		{"CheckInterval", &c.CheckInterval, defaultCheckInterval, time.Second},
		{"CommandTimeout", &c.CommandTimeout, defaultCommandTimeout, time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.otherwise
		}
		if *d.value < d.least {
			bad(d.field, fmt.Sprintf("must be at least %v", d.least), *d.value)
		}
	}
	if c.ChecksAtOnce == 0 {
		c.ChecksAtOnce = defaultChecksAtOnce
	}
	if c.ChecksAtOnce < 1 || c.ChecksAtOnce > maxChecksAtOnce {
		bad("ChecksAtOnce", fmt.Sprintf("must be from 1 to %d", maxChecksAtOnce), c.ChecksAtOnce)
	}
	if c.CommandTimeout%time.Second != 0 {
		bad("CommandTimeout", "must be whole seconds", c.CommandTimeout)
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return c, errors.Join(wrong...)
}

// Hooks are callbacks. They are called synchronously and possibly concurrently, by the goroutines
// of fences and watches. They must not block or change their arguments.
type Hooks struct {
	// OnTransition is called after a status was written. The reason names the transition, such as
	// PowerWaitOver. It is also the reason of the Event.
	OnTransition func(fence *v1alpha1.NodeFence, reason string)
	// OnRecord is called with each new or changed record that this process reads, including those
	// that exist when Run begins.
	OnRecord func(fence *v1alpha1.NodeFence)
	// OnForgotten is called when the record of a node is gone. It is also called with each node
	// that has one when Run ends, because this process then no longer knows.
	OnForgotten func(node string)
	// OnBlocked is called when a fence starts to wait for something other than a known time: an
	// admin, the policy or a configuration.
	OnBlocked func(node string, hold v1alpha1.Hold)
	// OnCommand is called after a command to a device has ended. Its error does not show whether
	// the device was switched.
	OnCommand func(node, device string, action agent.Action, took time.Duration, err error)
	// OnReading is called after a device was read.
	OnReading func(node, device string, power agent.Power, took time.Duration)
	// OnDecision is called with each decision about a node.
	OnDecision func(node string, decision api.Decision)
	// OnCommission is called when a commission has ended, with nil or the reason of the failure. A
	// commission that was given up may be reported a second time as failed, when its node is back.
	OnCommission func(node string, err error)
	// OnCheck is called after the devices of a node were checked, with nil or the reason why the
	// node cannot be fenced.
	OnCheck func(node string, err error)
	// OnConfiguration is called when the controller first knows whether any node has a usable
	// configuration, and when that changes. The error is nil, or has the problems of all nodes. If
	// no node has one when Run ends, it is called with nil, because this process then no longer
	// knows.
	OnConfiguration func(err error)
	// OnFenceReady is called after the condition FenceReady of a node was changed, with nil or the
	// reason why the node cannot be fenced. For a node without the condition it is called only if
	// the new status is not True.
	OnFenceReady func(node string, err error)
}
