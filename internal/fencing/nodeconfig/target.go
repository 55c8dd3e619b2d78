package nodeconfig

import (
	"fmt"
	"strings"

	"github.com/bellwether-k8s/bellwether/fencing/agent"
	"github.com/bellwether-k8s/bellwether/internal/fencing/nodeplan"
)

// Target returns the device for an agent, with the values that secret looks up. One newline at the
// end of a value is removed. Placeholders in it are not replaced, and no error contains it.
func Target(d *nodeplan.Device, node string, secret func(nodeplan.SecretRef) ([]byte, bool)) (agent.Target, error) {
	values := map[string]string{}
	for _, a := range d.Arguments {
		ref, inSecret := a.Value.Secret()
		if !inSecret {
			values[a.Name], _ = a.Value.Text()
			continue
		}
		content, found := secret(ref)
		value, longest, broken := withoutNewline(string(content)), maxLine-len(a.Name)-len(`=""`), ""
		switch flaw := badText(value); {
		case !found:
			broken = "is missing"
		case flaw != "":
			broken = "must be one line of UTF-8 text (got " + flaw + ")"
		case value == "" || len(value) > longest:
			broken = fmt.Sprintf("must have from 1 to %d bytes (got %d)", longest, len(value))
		}
		if broken != "" {
			return agent.Target{}, fmt.Errorf("config: %s: %s: secret %v %s", d.Key, a.Name, ref, broken)
		}
		values[a.Name] = value
	}
	return agent.Target{Node: node, Device: d.Key, Agent: d.Agent, Parameters: agent.NewParameters(values)}, nil
}

func withoutNewline(s string) string {
	if shorter, found := strings.CutSuffix(s, "\r\n"); found {
		return shorter
	}
	return strings.TrimSuffix(s, "\n")
}
