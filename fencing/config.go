package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodestate"
	"github.com/bellwether-k8s/bellwether/internal/fencing/policy"
)

// Config of a [Controller]. All candidates for its leadership should have the same, but for Node and Leadership.
type Config struct {
	// Namespace of the ConfigMaps that say how nodes are fenced, and of the Secrets that they refer to. Required.
	Namespace string

	// Node is the name of the node that this process runs on, which it never fences. Required unless OutsideCluster says that it runs on
	// none of the cluster's.
	Node           string
	OutsideCluster bool

	// Leadership under which the controller runs: an elector of package leaderelection. Without any time left no command is sent. Required.
	Leadership Leadership

	// Agents speak to the devices. Required.
	Agents Agents

	// Nodes says which nodes may be fenced, and for which of their conditions.
	Nodes NodeSelector

	// Limits of what may be fenced, and when.
	Limits Limits

	// Storage says, for methods of the isolation step that switch a device off, which storage the node cannot reach then. Its pods are released once the
	// device is proved to be off. By the method's name. Default: none.
	Storage map[string]Storage

	// StorageReachable says whether this process reaches the storage; it is asked before each fence if Limits.RequireStorage is set.
	StorageReachable func(ctx context.Context) bool

	// Dumps opens the port on which the kernels of nodes with kdump=yes say that they write a dump, such as kdump.Listen(kdump.DefaultAddress). It is opened when
	// the first such node is seen, and closed when Run returns. Nil: kdump=yes is an error of a node's configuration.
	Dumps func() (Dumps, error)

	// Paused says why nothing may be fenced now, such as that it is not the hour for it; empty: it may.
	// It must not block. Nil: it may. While there is a ConfigMap fence-paused in Namespace, nothing is
	// fenced either; its key reason says why.
	Paused func() string

	// RequireCommissioned holds the fence of every node whose power devices were not proved to be its own with their present configuration, see
	// [Controller.Commission].
	RequireCommissioned bool

	// OnlyConfigured leaves nodes alone that have no ConfigMap, neither of their own nor of their type, as
	// long as there is no fence-method-template-cloud either: as if they had the label that excludes them.
	// Otherwise such a node has the condition FenceReady False, and its fence is held.
	OnlyConfigured bool

	// TypeLabel is the label of Nodes whose value selects the ConfigMap for all nodes of a type. A kubelet
	// may write most labels of its own Node: with the prefix node-restriction.kubernetes.io/ it may not.
	// Default: type.
	TypeLabel string

	// StrictSecrets refuses configurations with a password that is not in a Secret.
	StrictSecrets bool

	// DetachTimeout is how long a release waits for the pods' end and for their volumes to be detached. Default: 1 min.
	DetachTimeout time.Duration

	// RestartDelay is how long a fence that has failed rests before it starts anew. Default: 30 s.
	RestartDelay time.Duration

	// History is how long the record of a fence is kept after its end. Default: 24 h.
	History time.Duration

	// CheckInterval is how often the devices of a node are read while nothing is wrong with it. Default: 5 min; at least 1 s.
	CheckInterval time.Duration

	// ChecksAtOnce is how many nodes have their devices read at the same time while nothing is wrong. Each
	// takes the memory of one agent, which is 20 MiB for fence_ipmilan, and 65 MiB or more for fence_aws.
	// Default: 4; from 1 to 64.
	ChecksAtOnce int

	// CommandTimeout is how long an agent may take for a command or a reading, unless its template says
	// command_timeout. Whole seconds. Default: 30 s.
	CommandTimeout time.Duration

	// Hooks are told what happens, for metrics and tests.
	Hooks Hooks

	// Events gets Kubernetes Events about nodes and their fences. Nil: none.
	Events EventRecorder

	// Logger gets transitions at Info, what is wrong at Warn. Nil: no logs.
	Logger *zap.Logger
}

// Leadership is what the controller has to know of it; *leaderelection.Elector has it.
type Leadership interface {
	// Remaining is how long this process may still act as the leader; zero: not at all.
	Remaining() time.Duration
}

// Agents speak to devices, and say what they need to know for that.
type Agents interface {
	agent.Agent
	// Metadata describes an agent's parameters. An error that is fs.ErrNotExist says that there is no such agent; others may pass.
	Metadata(ctx context.Context, name string) (agent.Metadata, error)
}

const (
	defaultCheckInterval  = 5 * time.Minute
	defaultCommandTimeout = 30 * time.Second
	defaultChecksAtOnce   = 4
	maxChecksAtOnce       = 64
)

// complete returns c with its defaults, or everything that is wrong with it.
func (c Config) complete() (Config, error) {
	var wrong []error
	bad := func(field, rule string, got any) {
		wrong = append(wrong, fmt.Errorf("fencing: %s: %s (got %v)", field, rule, got))
	}
	if problems := validation.IsDNS1123Label(c.Namespace); len(problems) > 0 {
		bad("Namespace", "must be the name of a namespace", fmt.Sprintf("%q", c.Namespace))
	}
	switch problems := validation.IsDNS1123Subdomain(c.Node); {
	case c.OutsideCluster && c.Node != "":
		bad("Node", "must be empty with OutsideCluster", fmt.Sprintf("%q", c.Node))
	case !c.OutsideCluster && len(problems) > 0:
		bad("Node", "must be the name of the node that this process runs on, unless OutsideCluster is set", fmt.Sprintf("%q", c.Node))
	}
	if c.Leadership == nil {
		bad("Leadership", "required", nil)
	}
	if c.Agents == nil {
		bad("Agents", "required", nil)
	}
	if _, err := nodestate.New(c.Nodes.withDefaults()); err != nil {
		wrong = append(wrong, err)
	}
	if err := policy.Limits(c.Limits).Validate(); err != nil {
		wrong = append(wrong, err)
	}
	if c.TypeLabel == "" {
		c.TypeLabel = "type"
	}
	if problems := validation.IsQualifiedName(c.TypeLabel); len(problems) > 0 {
		bad("TypeLabel", "must be the key of a label", fmt.Sprintf("%q", c.TypeLabel))
	}
	for method, storage := range c.Storage {
		if err := storage.internal().Validate(); err != nil {
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
