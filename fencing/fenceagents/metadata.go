package fenceagents

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
)

// known is the cached metadata of a program, with its file.
type known struct {
	file     os.FileInfo
	metadata agent.Metadata
}

// agentName matches the names of agents, without any other directory.
var agentName = regexp.MustCompile(`^` + namePrefix + `[A-Za-z0-9][A-Za-z0-9_.-]*$`)

func (a *Agents) metadata(ctx context.Context, name string) (agent.Metadata, error) {
	if !agentName.MatchString(name) {
		return agent.Metadata{}, fmt.Errorf(
			"fenceagents: an agent's name must be %s and letters, digits, _, . or - (got %q)",
			namePrefix,
			name,
		)
	}
	file, err := os.Stat(filepath.Join(a.config.Directory, name))
	if err != nil {
		return agent.Metadata{}, fmt.Errorf("fenceagents: no agent %s: %w", name, err)
	}
	a.mu.Lock()
	cached, found := a.known[name]
	a.mu.Unlock()
	if found && os.SameFile(cached.file, file) && cached.file.ModTime().Equal(file.ModTime()) {
		return cached.metadata, nil
	}
	metadata, err := a.askMetadata(ctx, name)
	if err != nil {
		return agent.Metadata{}, fmt.Errorf("fenceagents: metadata of %s: %w", name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[name] = known{file: file, metadata: metadata}
	return metadata, nil
}

func (a *Agents) askMetadata(ctx context.Context, name string) (agent.Metadata, error) {
	timeout := a.config.left(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("%w: it had %s", context.DeadlineExceeded, timeout))
	defer cancel()
	outcome, err := a.program(name).run(ctx, []byte("action=metadata\n"))
	switch {
	case err != nil:
		return agent.Metadata{}, err
	case outcome.code != 0:
		return agent.Metadata{}, fmt.Errorf("exit code %d: %s", outcome.code,
			shorten(tidy(string(outcome.stderr.kept))))
	case outcome.truncated:
		return agent.Metadata{}, fmt.Errorf("more than %d bytes", maxOutput)
	}
	return parseMetadata(name, outcome.stdout)
}

// resourceAgent is the output of agents for action=metadata.
type resourceAgent struct {
	XMLName    xml.Name `xml:"resource-agent"`
	Parameters []struct {
		Name       string `xml:"name,attr"`
		Required   string `xml:"required,attr"`
		Obsoletes  string `xml:"obsoletes,attr"`
		Deprecated string `xml:"deprecated,attr"`
		Content    struct {
			Type    string `xml:"type,attr"`
			Default string `xml:"default,attr"`
			Options []struct {
				Value string `xml:"value,attr"`
			} `xml:"option"`
		} `xml:"content"`
		ShortDesc string `xml:"shortdesc"`
	} `xml:"parameters>parameter"`
	Actions []struct {
		Name string `xml:"name,attr"`
	} `xml:"actions>action"`
}

func parseMetadata(name string, document []byte) (agent.Metadata, error) {
	var printed resourceAgent
	if err := xml.Unmarshal(document, &printed); err != nil {
		return agent.Metadata{}, fmt.Errorf("not the XML of a resource-agent: %w", err)
	}
	if len(printed.Parameters) == 0 || len(printed.Actions) == 0 {
		return agent.Metadata{}, errors.New("no parameters or no actions in it")
	}
	metadata := agent.Metadata{Name: name, OffIsProof: slices.Contains(provingOff, name)}
	for _, p := range printed.Parameters {
		if p.Name == "" {
			return agent.Metadata{}, errors.New("a parameter without a name")
		}
		parameter := agent.ParameterSpec{
			Name:       p.Name,
			Deprecated: p.Deprecated == "1",
			Type:       agent.ParameterType(p.Content.Type),
			Required:   p.Required == "1",
			Default:    p.Content.Default,
			ShortDesc:  strings.Join(strings.Fields(p.ShortDesc), " "),
		}
		if p.Obsoletes != "" {
			parameter.Obsoletes = []string{p.Obsoletes}
		}
		for _, option := range p.Content.Options {
			parameter.Options = append(parameter.Options, option.Value)
		}
		metadata.Parameters = append(metadata.Parameters, parameter)
	}
	for _, action := range printed.Actions {
		metadata.Actions = append(metadata.Actions, action.Name)
	}
	return metadata, nil
}

// permitted returns the metadata without the parameters that are refused.
func permitted(metadata agent.Metadata) agent.Metadata {
	metadata.Actions = slices.Clone(metadata.Actions)
	metadata.Parameters = slices.DeleteFunc(
		slices.Clone(metadata.Parameters),
		func(p agent.ParameterSpec) bool { return refusal(p.Name) != "" },
	)
	return metadata
}
