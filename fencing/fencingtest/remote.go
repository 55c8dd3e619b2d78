package fencingtest

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
	"github.com/bellwether-k8s/bellwether/fencing/v1alpha1"
)

// request is what a Remote asks a rack.
type request struct {
	Plug string `json:"plug"`
	// Command is nil for a reading.
	Command *agent.Command `json:"command,omitempty"`
}

// ServeHTTP lets controllers in other processes use the rack, by a Remote. A command of a
// controller that is killed before it has the answer is carried out all the same.
func (r *Rack) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var asked request
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	target := agent.Target{Parameters: agent.NewParameters(map[string]string{"plug": asked.Plug})}
	power, err := v1alpha1.PowerUnknown, error(nil)
	if asked.Command == nil {
		power, err = r.Power(req.Context(), target)
	} else {
		err = r.Switch(req.Context(), target, *asked.Command)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = io.WriteString(w, string(power))
}

// Remote is the agent of a rack in another process.
type Remote struct {
	// URL is where the rack is served.
	URL string
	// Client is one that waits a minute for an answer if nil.
	Client *http.Client
}

var _ agent.Agent = Remote{}

// Power implements agent.Agent.
func (r Remote) Power(ctx context.Context, target agent.Target) (v1alpha1.Power, error) {
	answer, err := r.ask(ctx, target, nil)
	if err != nil {
		return v1alpha1.PowerUnknown, err
	}
	return v1alpha1.Power(answer), nil
}

// Switch implements agent.Agent. It gives up after the command's timeout.
func (r Remote) Switch(ctx context.Context, target agent.Target, command agent.Command) error {
	if command.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, command.Timeout, fmt.Errorf("no answer within %s", command.Timeout))
		defer cancel()
	}
	_, err := r.ask(ctx, target, &command)
	return err
}

func (r Remote) ask(ctx context.Context, target agent.Target, command *agent.Command) (string, error) {
	plug, _ := target.Parameters.Get("plug")
	body, err := json.Marshal(request{Plug: plug, Command: command})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	client := r.Client
	if client == nil {
		client = &http.Client{Timeout: time.Minute}
	}
	answer, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("asking the rack: %w", err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return "", fmt.Errorf("reading the rack's answer: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
