package fenceagents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

const (
	defaultDirectory = "/usr/sbin"
	defaultPath      = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultTimeout   = 30 * time.Second
)

// actionStatus is the action of a reading.
const actionStatus = "status"

// namePrefix is the prefix of the names of all fence agents.
const namePrefix = "fence_"

// maxDelay is the maximum delay of a command.
const maxDelay = time.Second

// errAlive means that processes of an agent could not be ended. They may send a command at any
// later time, which no settle time covers.
var errAlive = fmt.Errorf("fenceagents: an agent's processes could not be ended: %w", agent.ErrAlive)

// Config configures [New].
type Config struct {
	// Directory of the programs. Default: /usr/sbin.
	Directory string
	// Path is the PATH of the programs, where they find others such as ipmitool. Default: the
	// directories of the system.
	Path string
	// Environment has further variables for the programs, as KEY=value, such as AWS_REGION or
	// REQUESTS_CA_BUNDLE for a cloud's library. Do not put secrets into it, because other processes
	// of the machine can read it.
	Environment []string
	// Timeout of readings whose context has no deadline, and of commands without one. Default: 30 s.
	Timeout time.Duration
	// Logger gets an entry at level Debug for each run of a program. If nil, nothing is logged.
	Logger *zap.Logger
}

// Agents runs fence agents. It is safe for concurrent use, and does not limit how many run at the
// same time.
type Agents struct {
	config Config

	mu    sync.Mutex
	known map[string]known // by name

	patience time.Duration
}

var (
	_ agent.Agent    = (*Agents)(nil)
	_ agent.Preparer = (*Agents)(nil)
)

// New validates the configuration. It does not check that any programs exist.
func New(c Config) (*Agents, error) {
	var errs []error
	broken := func(field, rule string, got any) {
		errs = append(errs, fmt.Errorf("fenceagents: %s: %s (got %v)", field, rule, got))
	}
	if c.Directory == "" {
		c.Directory = defaultDirectory
	}
	if !filepath.IsAbs(c.Directory) {
		broken("Directory", "must be absolute", c.Directory)
	}
	if c.Path == "" {
		c.Path = defaultPath
	}
	for _, directory := range filepath.SplitList(c.Path) {
		if !filepath.IsAbs(directory) {
			broken("Path", "must consist of absolute directories", c.Path)
			break
		}
	}
	for _, variable := range c.Environment {
		switch key, _, found := strings.Cut(variable, "="); {
		case !found || key == "" || strings.ContainsRune(variable, 0):
			broken("Environment", "must consist of KEY=value", key) // not the value, which might be a secret
		case key == "PATH" || key == "LC_ALL" || key == markerKey:
			broken("Environment", "must not set what is set here", key)
		}
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Timeout < 0 {
		broken("Timeout", "must not be negative", c.Timeout)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	c.Environment = slices.Clone(c.Environment)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return &Agents{config: c, known: map[string]known{}, patience: patience}, nil
}

// Names returns the sorted names of the installed agents.
func (a *Agents) Names() ([]string, error) {
	entries, err := os.ReadDir(a.config.Directory)
	if err != nil {
		return nil, fmt.Errorf("fenceagents: list agents: %w", err)
	}
	var names []string
	for _, entry := range entries { // sorted
		if info, err := os.Stat(filepath.Join(a.config.Directory, entry.Name())); err == nil &&
			info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 && strings.HasPrefix(entry.Name(), namePrefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// Metadata describes an agent, without the parameters that are refused. It runs the program once,
// and again when its file has changed.
func (a *Agents) Metadata(ctx context.Context, name string) (agent.Metadata, error) {
	metadata, err := a.metadata(ctx, name)
	if err != nil {
		return agent.Metadata{}, err
	}
	return permitted(metadata), nil
}

// Check returns what is wrong with the target's parameters. It uses the metadata of the agent only,
// not the device.
func (a *Agents) Check(ctx context.Context, target agent.Target) error {
	metadata, err := a.metadata(ctx, target.Agent)
	if err != nil {
		return err
	}
	if _, err := compose(metadata, actionStatus, target.Parameters); err != nil {
		return fmt.Errorf("fenceagents: %s for node %s: %w", target.Device, target.Node, err)
	}
	return nil
}

// Power reads the target's plug once.
func (a *Agents) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	return a.power(ctx, target, a.program(target.Agent).run)
}

// Prepare starts the target's agent, which does nothing before it has its parameters.
func (a *Agents) Prepare(ctx context.Context, target agent.Target) func(context.Context) (agent.Power, error) {
	if !agentName.MatchString(target.Agent) {
		return func(ctx context.Context) (agent.Power, error) { return a.Power(ctx, target) }
	}
	started := a.program(target.Agent).start(ctx)
	return func(reading context.Context) (agent.Power, error) {
		reading, cancel := context.WithCancelCause(reading)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		run := started.run
		defer func() {
			if run != nil { // a parameter is wrong
				cancel(nil)
				_, _ = run(reading, nil)
			}
		}()
		return a.power(reading, target, func(ctx context.Context, input []byte) (outcome, error) {
			run = nil
			return started.run(ctx, input)
		})
	}
}

// power reads with a program.
func (a *Agents) power(ctx context.Context, target agent.Target, run run) (agent.Power, error) {
	outcome, err := a.ask(ctx, target, actionStatus, a.config.left(ctx), run)
	if err != nil {
		return agent.PowerUnknown, err
	}
	power, err := reading(outcome)
	if err != nil {
		return agent.PowerUnknown, failure(target, actionStatus, err, outcome)
	}
	return power, nil
}

// left returns how long a reading may take.
func (c Config) left(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return c.Timeout
}

// Switch sends one command. Some agents repeat an on that shows no effect, but no agent repeats an
// off. It sends nothing if reading the agent's metadata first takes long, because the caller has
// checked the node just before the call.
func (a *Agents) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	if command.Action != agent.ActionOff && command.Action != agent.ActionOn {
		return fmt.Errorf("fenceagents: Command.Action: must be off or on (got %q)", command.Action)
	}
	timeout := command.Timeout
	if timeout == 0 {
		timeout = a.config.Timeout
	}
	outcome, err := a.ask(ctx, target, string(command.Action), timeout, a.program(target.Agent).run)
	switch {
	case err != nil:
		return err
	case outcome.code != 0 && unseen(outcome):
		return failure(target, string(command.Action), agent.ErrNoEffect, outcome)
	case outcome.code != 0:
		return failure(target, string(command.Action), fmt.Errorf("exit code %d", outcome.code), outcome)
	case already(outcome):
		return failure(target, string(command.Action), agent.ErrAlready, outcome)
	}
	return nil
}

// run runs a program with an input.
type run func(ctx context.Context, input []byte) (outcome, error)

// ask runs the target's agent once. It runs nothing if a parameter is wrong.
func (a *Agents) ask(ctx context.Context, target agent.Target, action string, timeout time.Duration, run run) (
	answer, error,
) {
	start := time.Now()
	metadata, err := a.metadata(ctx, target.Agent)
	if err != nil {
		return answer{}, fmt.Errorf("%w; needed for the %s of node %s", err, action, target.Node)
	}
	if took := time.Since(start); action != actionStatus && took > maxDelay {
		return answer{}, failure(
			target,
			action,
			fmt.Errorf("not sent, for it would be late: the agent's metadata took %s", took.Round(time.Millisecond)),
			answer{},
		)
	}
	input, err := compose(metadata, action, target.Parameters)
	if err != nil {
		return answer{}, failure(target, action, err, answer{})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("%w: it had %s", context.DeadlineExceeded, timeout))
	defer cancel()
	start = time.Now()
	outcome, err := run(ctx, input)
	given := answer{outcome: outcome, complaint: scrub(outcome.stderr, metadata, target.Parameters)}
	if err != nil {
		err = failure(target, action, err, given)
	}
	a.config.Logger.Debug(
		"ran a fence agent",
		zap.String("agent", target.Agent),
		zap.String("device", target.Device),
		zap.String("node", target.Node),
		zap.String(
			"action",
			action,
		),
		zap.Int("exitCode", outcome.code),
		zap.Duration("took", time.Since(start)),
		zap.Error(err),
	)
	return given, err
}

func (a *Agents) program(name string) program {
	return program{
		path:        filepath.Join(a.config.Directory, name),
		environment: append(slices.Clone(a.config.Environment), "PATH="+a.config.Path, "LC_ALL=C.UTF-8"),
		patience:    a.patience,
	}
}

// failure returns the error of a call. It contains no secret: err has no values, and the complaint
// is scrubbed.
func failure(target agent.Target, action string, err error, given answer) error {
	if given.complaint != "" {
		return fmt.Errorf(
			"fenceagents: %s of %s for node %s: %w: %s",
			action,
			target.Device,
			target.Node,
			err,
			given.complaint,
		)
	}
	return fmt.Errorf("fenceagents: %s of %s for node %s: %w", action, target.Device, target.Node, err)
}
