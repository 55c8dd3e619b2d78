package fencejobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// action is the task of a pod.
type action string

const (
	readPower    action = "status"
	switchOff           = action(agent.ActionOff)
	switchOn            = action(agent.ActionOn)
	readMetadata action = "metadata"
)

// sends reports whether it is a command.
func (a action) sends() bool { return a == switchOff || a == switchOn }

// version is the version of requests and answers.
const version = 1

// request is the request to a pod, in a file. It has secrets.
type request struct {
	Version    int               `json:"version"`
	ID         string            `json:"id"` // of the Job
	Action     action            `json:"action"`
	Node       string            `json:"node"`
	Device     string            `json:"device"`
	Agent      string            `json:"agent"`
	Parameters map[string]string `json:"parameters"`
	Window     window            `json:"window"`
}

func newRequest(id string, a action, target agent.Target, w window) request {
	r := request{
		Version: version, ID: id, Action: a, Node: target.Node, Device: target.Device, Agent: target.Agent, Window: w,
		Parameters: map[string]string{},
	}
	for _, name := range target.Parameters.Names() {
		r.Parameters[name], _ = target.Parameters.Get(name)
	}
	return r
}

// digest identifies a request. It is public, so it contains no value of a parameter, which may be
// short enough to guess. It does not contain the window, because the same command may be requested
// twice.
func (r request) digest() string {
	names := []string{}
	for name := range r.Parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	plain, err := json.Marshal([]any{r.Version, r.ID, r.Action, r.Node, r.Device, r.Agent, names})
	if err != nil {
		panic(err) // impossible for strings
	}
	sum := sha256.Sum256(plain)
	return hex.EncodeToString(sum[:])
}

func (r request) target() agent.Target {
	return agent.Target{Node: r.Node, Device: r.Device, Agent: r.Agent, Parameters: agent.NewParameters(r.Parameters)}
}

// readRequest decodes a request. Its errors contain no values.
func readRequest(content []byte) (request, error) {
	var r request
	if err := strict(content, &r); err != nil {
		return request{}, errors.New("the request cannot be read") // err may quote it
	}
	w := r.Window
	switch {
	case r.Version != version:
		return request{}, fmt.Errorf(
			"the request is of version %d, and this program knows %d: images of different age",
			r.Version,
			version,
		)
	case r.ID == "" || r.Agent == "" ||
		!slices.Contains([]action{readPower, switchOff, switchOn, readMetadata}, r.Action):
		return request{}, errors.New("the request is not complete")
	case w.Skew < 0 || !w.Closes.After(w.Opens) || w.Ends.Before(w.Closes):
		return request{}, errors.New("the window of the request is none")
	}
	return r, nil
}

// strict decodes exactly one object.
func strict(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something comes after it")
	}
	return nil
}
