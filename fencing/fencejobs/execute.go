package fencejobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// Agents read and switch devices in the pod. Use those of package fenceagents.
type Agents interface {
	agent.Agent
	Metadata(ctx context.Context, name string) (agent.Metadata, error)
}

// ExecuteConfig configures [Execute].
type ExecuteConfig struct {
	// Agents run in this process. Required.
	Agents Agents
	// Node that this pod runs on. Required.
	Node string
	// RequestPath and ResultPath are files. Default: those of the Jobs' pods.
	RequestPath, ResultPath string
}

// Execute executes the request of a Job in its pod, and writes the answer to the termination
// message. The program fencejob only calls it. The error, which the answer also contains, sets the
// exit code.
func Execute(ctx context.Context, c ExecuteConfig) error {
	if c.Agents == nil || c.Node == "" {
		return fmt.Errorf("fencejobs: Agents and Node: required (got %v and %q)", c.Agents, c.Node)
	}
	if c.RequestPath == "" {
		c.RequestPath = RequestPath
	}
	if c.ResultPath == "" {
		c.ResultPath = ResultPath
	}
	file, err := os.Stat(c.RequestPath) // follows links
	if err != nil {
		return fmt.Errorf("fencejobs: %w", err)
	}
	content, err := os.ReadFile(c.RequestPath)
	if err != nil {
		return fmt.Errorf("fencejobs: %w", err)
	}
	r, err := readRequest(content)
	if err != nil {
		return fmt.Errorf("fencejobs: %w", err) // no answer: there is no request for it
	}
	answer := execute(ctx, c.Agents, c.Node, r, file.ModTime())
	encoded, err := answer.encode()
	if err != nil {
		return fmt.Errorf("fencejobs: %w", err)
	}
	if err := os.WriteFile(c.ResultPath, encoded, 0o600); err != nil { // the file exists
		return fmt.Errorf("fencejobs: %w", err)
	}
	if err := answer.err(); err != nil {
		return fmt.Errorf("fencejobs: %w", err)
	}
	return nil
}

// execute executes a request if the node and the time are right.
func execute(ctx context.Context, agents Agents, node string, r request, mounted time.Time) result {
	answer := result{Version: version, Request: r.digest(), Outcome: done, Began: wall()}
	refuse := func(why error) result {
		answer.Outcome, answer.Message, answer.Ended = refused, why.Error(), wall()
		return answer
	}
	if node == r.Node {
		return refuse(errors.New("this is the node that it is about"))
	}
	if err := r.Window.refusal(answer.Began, mounted); err != nil {
		return refuse(err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Window.Ends.Sub(answer.Began))
	defer cancel()
	// The metadata of the agent is read before the command is sent. That takes time, in which
	// the window may close.
	metadata, err := agents.Metadata(ctx, r.Agent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		answer.Outcome, answer.Message, answer.Ended = absent, "no agent "+r.Agent, wall()
		return answer
	case err != nil:
		return refuse(err)
	}
	answer.Began = wall()
	if err := r.Window.refusal(answer.Began, mounted); err != nil {
		return refuse(err)
	}
	switch r.Action {
	case readMetadata:
		answer.Metadata, err = compressed(metadata)
	case readPower:
		answer.Power, err = agents.Power(ctx, r.target())
	default:
		command := agent.Command{
			ID: r.ID, Action: agent.Action(r.Action),
			Timeout: r.Window.Ends.Sub(answer.Began),
		}
		err = agents.Switch(ctx, r.target(), command)
	}
	if answer.Ended = wall(); err != nil {
		answer.Outcome, answer.Message = failed, err.Error()
		switch {
		case errors.Is(err, agent.ErrAlready):
			answer.Outcome = already
		case errors.Is(err, agent.ErrNoEffect):
			answer.Outcome = unseen
		}
	}
	return answer
}

// wall returns the time of the clock that is compared with the controller's.
func wall() time.Time { return time.Now().Round(0).UTC() }
