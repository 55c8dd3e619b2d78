// Package remoteagent lets processes of a test share one agent, such as a simulated rack. One
// process serves it, the others are its clients.
package remoteagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// request is the request of a client.
type request struct {
	Plug string `json:"plug"`
	// Command is nil for a reading.
	Command *agent.Command `json:"command,omitempty"`
}

// Handler serves an agent. It identifies targets by their parameter plug. A command of a client
// that is killed before it has the answer is executed nevertheless.
func Handler(a agent.Agent) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var asked request
		if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		target := agent.Target{Parameters: agent.NewParameters(map[string]string{"plug": asked.Plug})}
		power, err := agent.PowerUnknown, error(nil)
		if asked.Command == nil {
			power, err = a.Power(req.Context(), target)
		} else {
			err = a.Switch(req.Context(), target, *asked.Command)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, string(power))
	})
}

// Client is the agent that another process serves.
type Client struct {
	// URL of the [Handler].
	URL string
	// HTTP sends the requests. Default: a client that waits a minute for an answer.
	HTTP *http.Client
}

var _ agent.Agent = Client{}

// Power implements agent.Agent.
func (c Client) Power(ctx context.Context, target agent.Target) (agent.Power, error) {
	answer, err := c.ask(ctx, target, nil)
	if err != nil {
		return agent.PowerUnknown, err
	}
	return agent.Power(answer), nil
}

// Switch implements agent.Agent. It gives up after the command's timeout.
func (c Client) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	if command.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, command.Timeout, fmt.Errorf("no answer within %s", command.Timeout))
		defer cancel()
	}
	_, err := c.ask(ctx, target, &command)
	return err
}

func (c Client) ask(ctx context.Context, target agent.Target, command *agent.Command) (string, error) {
	plug, _ := target.Parameters.Get("plug")
	body, err := json.Marshal(request{Plug: plug, Command: command})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{Timeout: time.Minute}
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking the agent: %w", err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", fmt.Errorf("reading the agent's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
