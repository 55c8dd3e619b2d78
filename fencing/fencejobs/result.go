package fencejobs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// outcome is how a pod has ended.
type outcome string

const (
	done    outcome = "done"    // the agent has ended without an error, which proves nothing for a command
	failed  outcome = "failed"  // the agent has ended with an error
	refused outcome = "refused" // nothing was sent
	already outcome = "already" // nothing had to be sent
	unseen  outcome = "unseen"  // it was sent, and the agent has seen no effect
	absent  outcome = "absent"  // the agent does not exist
)

// result is the answer of a pod, in its termination message. Anyone who may see pods can read it.
type result struct {
	Version int         `json:"version"`
	Request string      `json:"request"` // the digest of the request
	Outcome outcome     `json:"outcome"`
	Power   agent.Power `json:"power,omitempty"`
	// Metadata is compressed JSON, because it would be too long otherwise.
	Metadata []byte `json:"metadata,omitempty"`
	// Message is the error of the agent, without secrets.
	Message string    `json:"message,omitempty"`
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
}

// maxResult is the maximum length of a termination message in bytes. Kubelets cut the rest off.
const maxResult = 4096

// encode returns the answer, with its message cut to fit.
func (r result) encode() ([]byte, error) {
	for {
		content, err := json.Marshal(r)
		if err != nil || len(content) <= maxResult {
			return content, err
		}
		if r.Message == "" {
			return nil, fmt.Errorf("the answer has %d bytes, and may have %d", len(content), maxResult)
		}
		r.Message = strings.ToValidUTF8(r.Message[:len(r.Message)/2], "")
	}
}

// readResult decodes the answer to a request.
func readResult(message string, to request) (result, error) {
	var r result
	if len(message) > maxResult {
		return result{}, fmt.Errorf("the pod's answer has more than %d bytes", maxResult)
	}
	if err := strict([]byte(message), &r); err != nil {
		return result{}, errors.New("the pod's answer cannot be read")
	}
	r.Message = printable(r.Message)
	known := slices.Contains([]outcome{done, failed, refused, already, unseen, absent}, r.Outcome)
	switch {
	case r.Version != version:
		return result{}, fmt.Errorf(
			"the pod's answer is of version %d, and this program knows %d: images of different age",
			r.Version,
			version,
		)
	case r.Request != to.digest():
		return result{}, errors.New("the pod's answer is to another request")
	case !known:
		return result{}, errors.New("the pod's answer has no outcome")
	case r.Began.IsZero() || r.Ended.Before(r.Began):
		return result{}, errors.New("the pod's answer has no times")
	}
	return r, nil
}

// err is nil if the agent has ended without an error.
func (r result) err() error {
	switch r.Outcome {
	case done:
		return nil
	case absent:
		return fmt.Errorf("%s: %w", r.Message, fs.ErrNotExist)
	case already:
		return fmt.Errorf("%s: %w", r.Message, agent.ErrAlready)
	case unseen:
		return fmt.Errorf("%s: %w", r.Message, agent.ErrNoEffect)
	case refused:
		return fmt.Errorf("refused by the pod, nothing was sent: %s", r.Message)
	}
	return errors.New(r.Message)
}

// power returns the reading if it counts now.
func (r result) power(to request, now time.Time, atMost time.Duration) (agent.Power, error) {
	if err := r.err(); err != nil {
		return agent.PowerUnknown, err
	}
	if r.Power != agent.PowerOn && r.Power != agent.PowerOff {
		return agent.PowerUnknown, errors.New("the pod's answer is no reading")
	}
	if err := to.Window.fresh(now, r.Began, r.Ended, atMost); err != nil {
		return agent.PowerUnknown, err
	}
	return r.Power, nil
}

// metadata returns the metadata of an agent.
func (r result) metadata() (agent.Metadata, error) {
	var m agent.Metadata
	if err := r.err(); err != nil {
		return m, err
	}
	reader, err := gzip.NewReader(bytes.NewReader(r.Metadata))
	if err == nil {
		var content []byte
		const most = 1 << 20
		if content, err = io.ReadAll(io.LimitReader(reader, most)); err == nil {
			err = strict(content, &m)
		}
	}
	if err != nil {
		return agent.Metadata{}, errors.New("the pod's answer has no metadata")
	}
	return m, nil
}

// compressed returns metadata without the texts for users, which are most of it.
func compressed(m agent.Metadata) ([]byte, error) {
	parameters := make([]agent.ParameterSpec, len(m.Parameters))
	for i, p := range m.Parameters {
		parameters[i] = p
		parameters[i].ShortDesc = ""
	}
	m.Parameters = parameters
	var buffer bytes.Buffer
	writer, err := gzip.NewWriterLevel(&buffer, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(writer).Encode(m)
	}
	if err == nil {
		err = writer.Close()
	}
	return buffer.Bytes(), err
}

// printable returns a foreign text as one line.
func printable(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), " ")
}
